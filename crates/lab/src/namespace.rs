//! Anonymous network namespaces: held by file descriptors only, so the kernel removes them when the
//! process ends, however it ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

use crate::{Error, Result, wait_until};

/// Settings every namespace starts with: no IPv6 chatter of its own, so that every packet in the
/// lab is one that was asked for.
const QUIET_SETTINGS: [(&str, &str); 6] = [
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
    ("net/ipv6/conf/default/accept_ra", "0"),
];

/// How long the kernel may take to know its own addresses.
const ROUTE_PATIENCE: Duration = Duration::from_secs(10);

/// A network namespace that nothing but this process (and the children it started inside) keeps
/// alive.
///
/// Cloning gives another handle of the same namespace; it is gone when the last handle, child and
/// device in use are.
///
/// # Examples
/// ```no_run
/// let namespace = fathom_lab::Namespace::new("client")?;
/// println!("{}", namespace.run("ip -brief address")?);
/// # Ok::<(), fathom_lab::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Namespace {
    name: Arc<str>,
    handle: Arc<File>,
}

impl Namespace {
    /// Creates a namespace with its loopback up and IPv6 autoconfiguration off; `name` only serves
    /// messages and need not be unique.
    ///
    /// # Errors
    /// [`Error::Namespace`] without `CAP_SYS_ADMIN`, [`Error::Command`] or [`Error::Setting`] when
    /// it cannot be set up.
    pub fn new(name: &str) -> Result<Self> {
        // A thread of its own, because unsharing changes the namespace of the calling thread for
        // good.
        let handle = thread::scope(|scope| {
            scope
                .spawn(|| {
                    unshare(CloneFlags::CLONE_NEWNET)?;
                    File::open("/proc/thread-self/ns/net")
                })
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
        .map_err(|source| Error::Namespace {
            namespace: name.to_owned(),
            action: "create",
            source,
        })?;
        let namespace = Self {
            name: name.into(),
            handle: Arc::new(handle),
        };
        for (key, value) in QUIET_SETTINGS {
            namespace.set(key, value)?;
        }
        namespace.run("ip link set lo up")?;
        Ok(namespace)
    }

    /// The name given at creation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A path through which other programs can name this namespace while this process lives
    /// (`ip link set … netns PATH`).
    pub fn path(&self) -> String {
        format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.handle.as_raw_fd()
        )
    }

    /// A command that will run `program` inside the namespace, in a process group of its own and
    /// without standard input.
    ///
    /// The child is killed when the thread that starts it ends, whatever ends it, so start
    /// long-lived children from a long-lived thread. A program that forks into the background
    /// escapes this: tell daemons to stay in the foreground.
    #[expect(
        unsafe_code,
        reason = "a child can enter a namespace only between fork and exec"
    )]
    pub fn command(&self, program: &str) -> Command {
        let handle = Arc::clone(&self.handle);
        let parent = nix::unistd::getpid();
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).process_group(0);
        // SAFETY: the closure makes system calls only; it neither allocates nor takes locks.
        unsafe {
            command.pre_exec(move || {
                setns(&*handle, CloneFlags::CLONE_NEWNET)?;
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                // The parent may have died before the signal was asked for.
                if getppid() == parent {
                    Ok(())
                } else {
                    Err(io::Error::from_raw_os_error(nix::libc::ESRCH))
                }
            });
        }
        command
    }

    /// Runs a command line to its end and returns its standard output; words are split at white
    /// space, without quoting.
    ///
    /// # Errors
    /// [`Error::Start`] when it cannot be started, [`Error::Command`] with its standard error when
    /// it fails.
    pub fn run(&self, command_line: &str) -> Result<String> {
        let mut words = command_line.split_whitespace();
        let program = words.next().unwrap_or_default();
        let output = self
            .command(program)
            .args(words)
            .output()
            .map_err(|source| Error::Start {
                program: program.to_owned(),
                source,
            })?;
        self.checked(command_line, &output)
    }

    fn checked(&self, command_line: &str, output: &Output) -> Result<String> {
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(Error::Command {
            namespace: self.name.to_string(),
            command: command_line.to_owned(),
            stderr: match stderr.trim() {
                "" => output.status.to_string(),
                message => message.to_owned(),
            },
        })
    }

    /// Runs `work` on a thread inside the namespace and returns its value; sockets and devices
    /// opened there stay there.
    ///
    /// A panic of `work` is passed on.
    ///
    /// # Errors
    /// [`Error::Namespace`] without `CAP_SYS_ADMIN`.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            scope
                .spawn(|| setns(self.as_fd(), CloneFlags::CLONE_NEWNET).map(|()| work()))
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
        .map_err(|error| Error::Namespace {
            namespace: self.name.to_string(),
            action: "enter",
            source: error.into(),
        })
    }

    /// Writes a kernel setting of this namespace, `key` being its path below `/proc/sys`, such as
    /// `net/ipv4/ip_forward`.
    ///
    /// # Errors
    /// [`Error::Setting`] when the kernel refuses, or when `key` is not under `net/` and would
    /// change the whole machine.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        let write = || {
            if key.starts_with("net/") && !key.contains("..") {
                std::fs::write(format!("/proc/sys/{key}"), value)
            } else {
                Err(io::ErrorKind::PermissionDenied.into())
            }
        };
        self.enter(write)?.map_err(|source| Error::Setting {
            namespace: self.name.to_string(),
            key: key.to_owned(),
            value: value.to_owned(),
            source,
        })
    }

    /// Lets the namespace forward IPv4 and IPv6 packets between its interfaces.
    ///
    /// # Errors
    /// As [`Namespace::set`].
    pub fn enable_forwarding(&self) -> Result<()> {
        self.set("net/ipv4/ip_forward", "1")?;
        self.set("net/ipv6/conf/all/forwarding", "1")
    }

    /// Switches the TCP timestamp option (RFC 7323) of connections opened from now on.
    ///
    /// # Errors
    /// As [`Namespace::set`].
    pub fn set_tcp_timestamps(&self, is_enabled: bool) -> Result<()> {
        self.set(
            "net/ipv4/tcp_timestamps",
            if is_enabled { "1" } else { "0" },
        )
    }

    /// Selects the congestion control of connections opened from now on; kernels allow only some
    /// inside a namespace (`reno`, often `bbr`).
    ///
    /// # Errors
    /// As [`Namespace::set`].
    pub fn set_congestion_control(&self, algorithm: &str) -> Result<()> {
        self.set("net/ipv4/tcp_congestion_control", algorithm)
    }

    /// Joins this namespace to `peer` by a veth pair, both ends up: `interface` here,
    /// `peer_interface` there.
    ///
    /// # Errors
    /// [`Error::Command`] when a name is taken or the kernel has no veth.
    pub fn connect(&self, interface: &str, peer: &Namespace, peer_interface: &str) -> Result<()> {
        self.run(&format!(
            "ip link add {interface} type veth peer name {peer_interface} netns {}",
            peer.path()
        ))?;
        self.run(&format!("ip link set {interface} up"))?;
        peer.run(&format!("ip link set {peer_interface} up"))?;
        Ok(())
    }

    /// Adds an address with its prefix length, such as `10.77.1.1/24` or `fd77:1::1/64`, usable at
    /// once (no duplicate detection).
    ///
    /// # Errors
    /// [`Error::Command`] when the interface is missing or the address is there already.
    pub fn add_address(&self, interface: &str, address: &str) -> Result<()> {
        if !address.contains(':') {
            self.run(&format!("ip address add {address} dev {interface}"))?;
            return Ok(());
        }
        self.run(&format!("ip address add {address} dev {interface} nodad"))?;
        // A thread of the kernel makes the route to it a little later, and until then packets to it
        // are dropped.
        let own = address.split('/').next().unwrap_or(address);
        let look = format!("ip -6 route show table local {own}");
        wait_until(ROUTE_PATIENCE, "the route to a new address", || {
            self.run(&look).is_ok_and(|routes| !routes.is_empty())
        })
    }

    /// Routes `destination` (a prefix, or `default`) over the neighbour `gateway`; the family is
    /// that of the gateway.
    ///
    /// # Errors
    /// [`Error::Command`] when the gateway is not reachable or the route exists.
    pub fn add_route(&self, destination: &str, gateway: &str) -> Result<()> {
        let family = if gateway.contains(':') { "-6" } else { "-4" };
        self.run(&format!(
            "ip {family} route add {destination} via {gateway}"
        ))?;
        Ok(())
    }

    /// Sets the largest packet of an interface, in bytes of network layer.
    ///
    /// # Errors
    /// [`Error::Command`] when the interface is missing or refuses the size.
    pub fn set_mtu(&self, interface: &str, mtu_bytes: u32) -> Result<()> {
        self.run(&format!("ip link set {interface} mtu {mtu_bytes}"))?;
        Ok(())
    }

    /// Switches segmentation, receive aggregation and checksum offloads of an interface together.
    ///
    /// # Errors
    /// [`Error::Command`] when the interface is missing or refuses.
    pub fn set_offloads(&self, interface: &str, is_enabled: bool) -> Result<()> {
        let state = if is_enabled { "on" } else { "off" };
        self.run(&format!(
            "ethtool -K {interface} tso {state} gso {state} gro {state} tx {state}"
        ))?;
        Ok(())
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Why the lab cannot run for this user on this machine, or `None` when it can.
///
/// # Examples
/// ```
/// if let Some(why) = fathom_lab::obstacle() {
///     println!("skipped: {why}");
/// }
/// ```
pub fn obstacle() -> Option<String> {
    if let Err(error) = Namespace::new("probe") {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        return Some(format!("{error}: {}", cause.unwrap_or_default()));
    }
    match File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => None,
        Err(error) => Some(format!("cannot open /dev/net/tun: {error}")),
    }
}

/// Whether the lab cannot run; then the test that asks has said why it is skipped.
pub fn is_skipped() -> bool {
    obstacle()
        .inspect(|why| println!("skipped: {why}"))
        .is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn veth_pair_carries_both_families() {
        if is_skipped() {
            return;
        }
        let left = Namespace::new("left").unwrap();
        let right = Namespace::new("right").unwrap();
        left.connect("veth0", &right, "veth1").unwrap();
        left.add_address("veth0", "10.77.9.1/24").unwrap();
        left.add_address("veth0", "fd77:9::1/64").unwrap();
        right.add_address("veth1", "10.77.9.2/24").unwrap();
        right.add_address("veth1", "fd77:9::2/64").unwrap();
        left.set_offloads("veth0", false).unwrap();
        left.set_mtu("veth0", 1400).unwrap();
        left.run("ping -c 1 -W 2 10.77.9.2").unwrap();
        left.run("ping -c 1 -W 2 fd77:9::2").unwrap();
    }

    #[test]
    fn failed_command_carries_its_stderr() {
        if is_skipped() {
            return;
        }
        let namespace = Namespace::new("alone").unwrap();
        let error = namespace.run("ip link show missing0").unwrap_err();
        assert!(error.to_string().contains("missing0"), "{error}");
        assert!(matches!(
            namespace.run("no-such-program").unwrap_err(),
            Error::Start { .. }
        ));
    }

    #[test]
    fn settings_stay_inside() {
        if is_skipped() {
            return;
        }
        let namespace = Namespace::new("inside").unwrap();
        let outside = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps").unwrap();
        namespace.set_tcp_timestamps(false).unwrap();
        assert_eq!(
            std::fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps").unwrap(),
            outside
        );
        assert_eq!(
            namespace
                .run("sysctl -n net.ipv4.tcp_timestamps")
                .unwrap()
                .trim(),
            "0"
        );
        assert!(namespace.set("kernel/hostname", "x").is_err());
    }
}
