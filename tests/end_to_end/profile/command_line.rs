//! What the options select and hide, and how the measurement begins and ends.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use fathom_lab::{Process, Topology, wait_until};
use fathom_tests::{Fathom, Group, Profile, binary, programs_of};
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;

use crate::stage::{Family, PATIENCE, Pair, Stage, lab, profiles_of};

const WANTED: u16 = 5500;
const OTHER: u16 = 5502;

/// A connection there and back.
fn converse(lab: &Topology, address: IpAddr, port: u16) {
    let mut pair = Pair::open(lab, SocketAddr::new(address, port));
    pair.upload(1);
    pair.close();
}

/// A whole connection has two profiles at either end, and both ends its port.
#[fathom_lab::test]
fn ports_select() {
    let lab = lab(Vec::new(), Vec::new());
    let fathom = Fathom::profile(&lab.router, &["--port", &WANTED.to_string()]).unwrap();
    for port in [OTHER, WANTED] {
        converse(&lab, Topology::SERVER_V4, port);
    }
    let stage = Stage { lab, fathom };
    for host in [&stage.lab.client, &stage.lab.server] {
        assert_eq!(stage.profiles(host, WANTED).len(), 2);
        assert_eq!(profiles_of(&stage.fathom.profiles(), host, OTHER), []);
    }
    stage.fathom.finish().unwrap();
}

/// A client process of its own; it does nothing but connect, and closes at the end.
fn client_process(lab: &Topology, shell_prefix: &str, port: u16) -> Process {
    let script = format!(
        "{shell_prefix} exec bash -c 'exec 3<>/dev/tcp/{}/{port}; read -u 3 line'",
        Topology::SERVER_V4
    );
    Process::start(lab.client.command("sh").args(["-c", &script])).unwrap()
}

/// Makes two connections, the first by `bash`; both end at once, and their profiles are printed
/// unless something else was selected.
fn two_clients(stage: &Stage, shell_prefix: &str) {
    let address = SocketAddr::new(Topology::SERVER_V4, WANTED);
    let listener = crate::stage::listen(&stage.lab.server, address);
    let mut process = client_process(&stage.lab, shell_prefix, WANTED);
    drop(listener.accept().unwrap());
    process.wait_with_deadline(PATIENCE).unwrap();
    converse(&stage.lab, Topology::SERVER_V4, OTHER);
}

#[fathom_lab::test]
fn processes_select() {
    let lab = lab(Vec::new(), Vec::new());
    let options = ["--net", "10.77.0.0/16", "--process", "nobody,bash"];
    let fathom = Fathom::profile(&lab.router, &options).unwrap();
    let stage = Stage { lab, fathom };
    two_clients(&stage, "");
    let profiles = stage.profiles(&stage.lab.client, WANTED);
    for profile in &profiles {
        assert_eq!(profile.text("process"), "bash");
    }
    let mut all = stage.fathom.finish().unwrap().profiles();
    all.retain(|profile| profile.has_port(WANTED) || profile.has_port(OTHER));
    assert_eq!(all.len(), profiles.len(), "{all:#?}");
}

#[fathom_lab::test]
fn control_groups_select() {
    let lab = lab(Vec::new(), Vec::new());
    let Some(group) = Group::create().unwrap() else {
        return;
    };
    let folder = group.folder();
    let options = ["--net", "10.77.0.0/16", "--cgroup", folder];
    let fathom = Fathom::profile(&lab.router, &options).unwrap();
    let stage = Stage { lab, fathom };
    two_clients(&stage, &format!("echo $$ > {folder}/cgroup.procs &&"));
    let profiles = stage.profiles(&stage.lab.client, WANTED);
    let path = group.path();
    for profile in &profiles {
        assert_eq!(profile.text("cgroup"), path);
    }
    let mut all = stage.fathom.finish().unwrap().profiles();
    all.retain(|profile| profile.has_port(WANTED) || profile.has_port(OTHER));
    assert_eq!(all.len(), profiles.len(), "{all:#?}");
}

/// The kernel tells the number of the control group, and its path whose it is. The server's end is
/// of this process, which is in no container.
#[fathom_lab::test]
fn containers_are_told() {
    let lab = lab(Vec::new(), Vec::new());
    let Some(mut group) = Group::create().unwrap() else {
        return;
    };
    let id = "3c1b9a1f0f4dd1e2a9c5b7e84a60d2f3".repeat(2);
    let path = format!(
        "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-\
         pod2d4a1d5e_6b0c_4f0e_9a77_0f6f3f1f7b11.slice/cri-containerd-{id}.scope"
    );
    let fathom = Fathom::profile(&lab.router, &["--net", "10.77.0.0/16"]).unwrap();
    let stage = Stage { lab, fathom };
    // Later than the measurement: it did not know the group.
    let folder = group.make_below(&path).unwrap();
    two_clients(
        &stage,
        &format!("echo $$ > {}/cgroup.procs &&", folder.display()),
    );
    let of_client = stage.profiles(&stage.lab.client, WANTED);
    for profile in &of_client {
        assert_eq!(profile.text("cgroup"), format!("{}/{path}", group.path()));
        assert_eq!(profile.text("container"), id);
        assert_eq!(profile.text("container_runtime"), "containerd");
        assert_eq!(profile.text("pod"), "2d4a1d5e-6b0c-4f0e-9a77-0f6f3f1f7b11");
        assert_eq!(profile.get("systemd_unit"), None);
    }
    for profile in stage.profiles(&stage.lab.server, WANTED) {
        assert_ne!(profile.text("container"), id);
        assert_eq!(profile.get("pod"), None);
    }
    stage.fathom.finish().unwrap();
}

#[fathom_lab::test]
fn addresses_are_cut() {
    let lab = lab(Vec::new(), Vec::new());
    let networks = ["--net", "10.77.0.0/16,fd77::/16"];
    let options = [&networks[..], &["--anonymize", "v4=24,v6=32"]].concat();
    let fathom = Fathom::profile(&lab.router, &options).unwrap();
    for family in Family::BOTH {
        converse(&lab, family.server(), family.port(WANTED));
    }
    let stage = Stage { lab, fathom };
    for (family, [source, destination]) in Family::BOTH
        .into_iter()
        .zip([["10.77.1.0", "10.77.2.0"], ["fd77:1::", "fd77:2::"]])
    {
        for profile in stage.profiles(&stage.lab.client, family.port(WANTED)) {
            let addresses = ["source", "destination", "next_hop"].map(|name| profile.text(name));
            assert_eq!(addresses, [source, destination, source]);
        }
    }
    let printed = format!("{:?}", stage.fathom.finish().unwrap().profiles());
    for whole in ["10.77.1.1\"", "10.77.2.1\"", "fd77:1::1", "fd77:2::1"] {
        assert!(!printed.contains(whole), "{whole}");
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(binary().unwrap())
        .arg("profile")
        .args(arguments)
        .output()
        .unwrap()
}

/// The kernel keeps 15 bytes of a process's name; users have the whole one.
#[fathom_lab::test]
fn processes_with_long_names_select() {
    let lab = lab(Vec::new(), Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [wanted, other] = ["a-shell-with-a-long-name", "another-with-a-long-name"];
    for name in [wanted, other] {
        fs::copy("/bin/bash", program(name)).unwrap();
    }
    let options = ["--net", "10.77.0.0/16", "--process", wanted];
    let fathom = Fathom::profile(&lab.router, &options).unwrap();
    let stage = Stage { lab, fathom };
    for (name, port) in [(other, OTHER), (wanted, WANTED)] {
        let address = SocketAddr::new(Topology::SERVER_V4, port);
        let listener = crate::stage::listen(&stage.lab.server, address);
        let script = format!(
            "exec 3<>/dev/tcp/{}/{port}; read -u 3 line",
            Topology::SERVER_V4
        );
        let mut command = stage.lab.client.command(&program(name));
        let mut process = Process::start(command.args(["-c", &script])).unwrap();
        let accepted = listener.accept().unwrap();
        wait_until(PATIENCE, "its profile", || {
            name == other || stage.fathom.profiles().iter().any(|one| one.has_port(port))
        })
        .unwrap();
        drop(accepted);
        process.wait_with_deadline(PATIENCE).unwrap();
    }
    let all = stage.fathom.finish().unwrap().profiles();
    let own = all
        .iter()
        .filter(|profile| profile.is_of(&stage.lab.client));
    assert!(own.clone().count() != 0);
    for profile in own {
        assert!(profile.has_port(WANTED), "{profile:?}");
        assert_eq!(profile.text("process"), &wanted[..15]);
    }
}

#[fathom_lab::test]
fn a_collector_that_cannot_be_had_is_an_error() {
    // Nobody listens at port 1, and this name is nobody's (RFC 6761).
    for (url, why) in [
        ("ipfix+tcp://127.0.0.1:1", "Connection refused"),
        ("ipfix+udp://nobody.invalid", "nobody.invalid"),
        ("ipfix+tcp://nobody.invalid", "nobody.invalid"),
    ] {
        let output = run(&["--duration", "1s", "--export", url]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        let told = format!("fathom: cannot export to {url}");
        assert!(errors.contains(&told) && errors.contains(why), "{errors}");
    }
}

/// Over UDP nobody says that nobody listens until something was sent.
#[fathom_lab::test]
fn records_that_no_collector_took_are_an_error() {
    let lab = lab(Vec::new(), Vec::new());
    let url = "ipfix+udp://127.0.0.1:4739";
    let options = ["--net", "10.77.0.0/16", "--flush", "10ms", "--export", url];
    let fathom = Fathom::profile(&lab.router, &options).unwrap();
    converse(&lab, Topology::SERVER_V4, WANTED);
    let refused = "send to the collector: Connection refused";
    wait_until(PATIENCE, "the collector's absence", || {
        fathom.errors().contains(refused)
    })
    .unwrap();
    let ended = fathom.end(Signal::SIGINT).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.errors);
    let told = format!("records have not reached {url}");
    assert!(ended.errors.contains(&told), "{}", ended.errors);
}

/// Runs it where control groups are not mounted.
fn without_groups(prefix: &[&str]) -> Output {
    let script = "for folder in $(awk '$3 == \"cgroup2\" { print $2 }' /proc/mounts); do umount -l $folder; done
        exec \"$@\"";
    Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .args(["sh", "-c", script, "sh"])
        .args(prefix)
        .arg(binary().unwrap())
        .args(["profile", "--duration", "1s", "--dns"])
        .output()
        .unwrap()
}

#[fathom_lab::test]
fn control_groups_that_nobody_mounted_are_mounted() {
    let output = without_groups(&[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(!errors.contains("control groups"), "{errors}");
}

#[fathom_lab::test]
fn names_that_cannot_be_had_are_an_error() {
    let output = without_groups(&["setpriv", "--bounding-set=-sys_admin"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("DNS was asked for"), "{errors}");
    assert!(
        errors.contains(
            "no version 2 hierarchy of control groups is mounted, and this process may not mount it"
        ),
        "{errors}"
    );
}

/// What profiles of MPTCP lack is of no interest to those who do not use it.
#[fathom_lab::test]
fn mptcp_is_not_spoken_of_without_need() {
    let lab = lab(Vec::new(), Vec::new());
    let fathom = Fathom::profile(&lab.router, &["--net", "10.77.0.0/16"]).unwrap();
    let stage = Stage { lab, fathom };
    converse(&stage.lab, Topology::SERVER_V4, WANTED);
    assert_eq!(stage.profiles(&stage.lab.client, WANTED).len(), 2);
    let errors = stage.fathom.finish().unwrap().errors;
    assert!(!errors.contains("MPTCP"), "{errors}");
}

#[fathom_lab::test]
fn probes_are_listed() {
    let output = run(&["--probes"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("(used)").count(), 1, "{text}");
    for set in ["tracepoint", "fentry"] {
        assert!(text.lines().any(|line| line.starts_with(set)), "{text}");
    }
    assert!(text.contains("\n  yes  stalls and recoveries"), "{text}");
}

#[fathom_lab::test]
fn interrupt_ends_with_a_summary() {
    let lab = lab(Vec::new(), Vec::new());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let networks = ["--net", "10.77.0.0/16"];
        let fathom = Fathom::profile(&lab.router, &networks).unwrap();
        converse(&lab, Topology::SERVER_V4, WANTED);
        wait_until(PATIENCE, "both last profiles", || {
            let profiles = fathom.profiles().into_iter();
            let mut own =
                profiles.filter(|profile| profile.is_of(&lab.client) || profile.is_of(&lab.server));
            own.by_ref().filter(Profile::is_last).count() == 2
        })
        .unwrap();
        let finished = fathom.end(signal).unwrap();
        assert!(finished.status.success(), "{}", finished.errors);
        let printed = finished.profiles().len();
        let summary = format!("{printed} profiles in ");
        assert!(finished.errors.contains(&summary), "{}", finished.errors);
    }
}

/// Whether the kernel still has the program of this number.
fn is_loaded(program: u32) -> bool {
    /// `BPF_PROG_GET_FD_BY_ID` of linux/bpf.h.
    const GET_BY_NUMBER: libc::c_long = 13;
    let attributes = [program, 0, 0];
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    // SAFETY: the kernel reads so many bytes of the array; the descriptor that it may return is
    // closed here.
    unsafe {
        let size = size_of_val(&attributes);
        let result = libc::syscall(libc::SYS_bpf, GET_BY_NUMBER, attributes.as_ptr(), size);
        match Errno::result(result) {
            Ok(descriptor) => {
                libc::close(descriptor as libc::c_int);
                true
            }
            Err(error) => {
                assert_eq!(error, Errno::ENOENT);
                false
            }
        }
    }
}

#[fathom_lab::test]
fn killed_it_leaves_nothing_behind() {
    let lab = lab(Vec::new(), Vec::new());
    let mut fathom = Fathom::profile(&lab.router, &["--net", "10.77.0.0/16"]).unwrap();
    let programs = programs_of(fathom.process().id()).unwrap();
    assert!(programs.len() >= 5, "{programs:?}");
    assert!(programs.iter().all(|program| is_loaded(*program)));
    let finished = fathom.end(Signal::SIGKILL).unwrap();
    assert!(!finished.status.success());
    // The kernel frees them soon after the process is gone.
    wait_until(PATIENCE, "the programs to go", || {
        !programs.iter().any(|program| is_loaded(*program))
    })
    .unwrap();
}

/// Somebody without privileges is told which he lacks.
#[fathom_lab::test]
fn without_privileges() {
    // Opened here, as its folder may be closed to others; not copied: a child that another test
    // forks meanwhile would hold the copy open for writing, and such a file can't be run.
    let binary = File::open(binary().unwrap()).unwrap();
    let output = Command::new(format!("/proc/self/fd/{}", binary.as_raw_fd()))
        .arg("profile")
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    for needed in ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"] {
        assert!(errors.contains(needed), "{errors}");
    }
    assert_eq!(output.stdout, b"");
}
