//! The program where checks leave: it has their packets take the route of clients' packets. It is
//! there as long as this process, which makes the checks.

use std::os::fd::AsFd;
use std::sync::LazyLock;

use fathom_measure::bytes::bytes_of;
use fathom_measure::kernel::{self, Egress, add_counters};
use libbpf_rs::{MapCore, MapHandle, Object, ProgramAttachType};

use super::obstacle::Obstacle;
use super::routes::Routes;
use crate::Error;
use crate::config::{Check, CheckRoute, Config, Service};
use crate::native::{balance_checks_config, check_counter_names};

/// The compiled program.
static OBJECT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    kernel::decompress(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/checks.bpf.o.zst"
    )))
});

const CONFIG: &str = ".rodata.checks_config";

/// The program, loaded, and where it is attached.
struct CheckProgram {
    // Dropped in this order: it is detached first.
    attached: Egress,
    object: Object,
    constants: balance_checks_config,
}

impl CheckProgram {
    fn load(config: &balance_checks_config, servers: &MapHandle) -> Result<Self, Error> {
        let object = kernel::load(&OBJECT, |object| {
            kernel::set_constants(object, &[(CONFIG, bytes_of(config))])?;
            let shared = object
                .maps_mut()
                .find(|map| map.name() == "balance_servers");
            if let Some(mut map) = shared {
                let failed = |error| Error::kernel("share the table of servers", error);
                map.set_max_entries(servers.max_entries()).map_err(failed)?;
                map.reuse_fd(servers.as_fd()).map_err(failed)?;
            }
            for mut program in object.progs_mut() {
                program.set_attach_type(ProgramAttachType::TcxEgress);
            }
            Ok::<_, Error>(())
        })?;
        Ok(Self {
            attached: Egress::default(),
            object,
            constants: *config,
        })
    }

    fn attach(&mut self, interface: &str) -> Result<(), Error> {
        let program = kernel::program(&self.object, "check_egress")?;
        Ok(self.attached.attach(&program, interface)?)
    }

    fn counts(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        let mut counts: Vec<_> = check_counter_names().map(|name| (name, 0)).collect();
        let map = kernel::map(&self.object, "balance_checks")?;
        add_counters(&map, counts.iter_mut().map(|(_, count)| count))?;
        Ok(counts)
    }
}

/// May checks of some server of it take the route of clients' packets, and must they?
fn wants_tunnel(config: &Config, service: &Service) -> (bool, bool) {
    let servers = service
        .servers
        .iter()
        .map(|server| &config.servers[*server]);
    let checked = servers.filter(|server| {
        server.health.check != Check::None && service.check_target(&server.health).is_some()
    });
    let routes: Vec<_> = checked.map(|server| server.health.route).collect();
    let may = routes.iter().any(|route| *route != CheckRoute::Address);
    (may, routes.contains(&CheckRoute::Tunnel))
}

/// Where checks leave.
#[derive(Default)]
pub(super) struct Checks {
    /// Or why it could not be loaded; `None`: no check needs it.
    program: Option<Result<CheckProgram, String>>,
}

impl Checks {
    /// Loads the program, if some check may need it. That it cannot be loaded is in the way of
    /// checks, not of forwarding.
    pub(super) fn plan(
        &mut self,
        config: &Config,
        seed: u64,
        interfaces: &[u32],
        servers: &MapHandle,
    ) {
        let mut services = config.services.iter();
        if !services.any(|service| wants_tunnel(config, service).0) {
            self.program = None;
            return;
        }
        let constants = balance_checks_config {
            seed,
            mark: config.mark,
            interface: match interfaces {
                [only] => *only,
                _ => 0,
            },
        };
        if matches!(&self.program, Some(Ok(program)) if program.constants == constants) {
            return;
        }
        let loaded = CheckProgram::load(&constants, servers);
        self.program = Some(loaded.map_err(|error| with_causes(&error)));
    }

    /// Has packets of checks take the route of clients' packets, where they leave for each service.
    /// What is in the way comes back for each; nothing is where nobody wants it.
    pub(super) fn open_routes(
        &mut self,
        config: &Config,
        routes: &mut Routes,
    ) -> Result<Vec<Option<Obstacle>>, Error> {
        let (mut obstacles, mut used) = (Vec::new(), Vec::new());
        for service in &config.services {
            let (may, _) = wants_tunnel(config, service);
            let opened = if may {
                let interface = routes.leave(config.checked_address(service), config.mark)?;
                interface
                    .and_then(|interface| self.attach(interface))
                    .map(|interface| used.push(interface))
            } else {
                Ok(())
            };
            obstacles.push(opened.err());
        }
        if let Some(Ok(program)) = &mut self.program {
            program.attached.keep(&used);
        }
        Ok(obstacles)
    }

    fn attach(&mut self, interface: u32) -> Result<u32, Obstacle> {
        let program = match &mut self.program {
            Some(Ok(program)) => program,
            Some(Err(why)) => return Err(Obstacle::Refused(why.clone())),
            None => return Err(Obstacle::Refused("it was not loaded".to_owned())),
        };
        let name = interface_name(interface).ok_or(Obstacle::NoRoute)?;
        match program.attach(&name) {
            Ok(()) => Ok(interface),
            Err(error) => Err(Obstacle::Refused(with_causes(&error))),
        }
    }

    /// What became of packets of checks, by name.
    pub(super) fn counts(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        match &self.program {
            Some(Ok(program)) => program.counts(),
            _ => Ok(Vec::new()),
        }
    }
}

/// What is in the way of checks that must take the route of clients' packets, and can be cured by
/// nobody but the user of this machine.
///
/// # Errors
/// [`Error::Unsupported`] when there is something.
pub(crate) fn demand_routes(config: &Config, obstacles: &[Option<Obstacle>]) -> Result<(), Error> {
    for (service, obstacle) in config.services.iter().zip(obstacles) {
        if let Some(Obstacle::Refused(why)) = obstacle
            && wants_tunnel(config, service).1
        {
            return Err(Error::Unsupported {
                needs: format!(
                    "checks of service {} with way = \"tunnel\" need a program where they leave",
                    service.name
                ),
                found: why.clone(),
                remedy: "say way = \"address\" or \"auto\" in [health]".to_owned(),
            });
        }
    }
    Ok(())
}

fn interface_name(index: u32) -> Option<String> {
    let name = nix::net::if_::if_indextoname(index).ok()?;
    Some(name.to_string_lossy().into_owned())
}

fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(way: &str) -> Config {
        Config::parse(&format!(
            "[health]\nway = \"{way}\"\n[[server]]\nname = \"a\"\naddress = \"10.0.0.1\"\n[[service]]\nname = \"s\"\naddress = \"192.0.2.1\"\nport = 80\n"
        ))
        .unwrap()
    }

    #[test]
    fn who_demands_the_tunnel_is_told_when_the_kernel_refuses() {
        let refused = [Some(Obstacle::Refused("it has no tc".to_owned()))];
        let demand = |way: &str, obstacles: &[_]| {
            demand_routes(&config(way), obstacles).map_err(|error| error.to_string())
        };
        let told = demand("tunnel", &refused).unwrap_err();
        assert!(
            told.contains("it has no tc: say way = \"address\""),
            "{told}"
        );
        assert_eq!(demand("auto", &refused), Ok(()));
        // That may change by itself.
        assert_eq!(demand("tunnel", &[Some(Obstacle::NoRoute)]), Ok(()));
    }

    #[test]
    fn only_what_is_checked_through_the_tunnel_needs_the_program() {
        for (way, wanted) in [
            ("auto", (true, false)),
            ("tunnel", (true, true)),
            ("address", (false, false)),
        ] {
            let config = config(way);
            assert_eq!(wants_tunnel(&config, &config.services[0]), wanted);
        }
    }
}
