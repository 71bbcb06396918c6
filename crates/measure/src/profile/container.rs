//! Whose a control group is, by its path: container runtimes, Kubernetes and systemd name groups
//! after what is in them.

use std::borrow::Cow;

/// What the path of a control group says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Owner<'a> {
    /// The id of the innermost container, or its name where its runtime has only names.
    pub(super) container: Option<Cow<'a, str>>,
    /// What runs it, where the path says so.
    pub(super) runtime: Option<&'static str>,
    /// The innermost pod: the UID of Kubernetes, or the id of Podman.
    pub(super) pod: Option<Cow<'a, str>>,
    /// The innermost unit of systemd that is more than the frame of a container.
    pub(super) unit: Option<&'a str>,
}

/// What stands before the id of a container, and what writes it so.
const PREFIXES: [(&str, &str); 6] = [
    ("docker", "docker"),
    ("cri-containerd", "containerd"),
    ("nerdctl", "containerd"),
    ("crio", "cri-o"),
    ("libpod", "podman"),
    ("libpod-payload", "podman"),
];
/// Virtual machines of libvirt are machines of systemd, too, but their sockets are the host's.
const NO_CONTAINERS: [&str; 2] = ["qemu-", "lxc-"];

/// Reads a path of the version 2 hierarchy, or of any of version 1. What is further in counts: a
/// container in a container, or a pod on a node that is a container itself.
pub(super) fn owner(path: &str) -> Owner<'_> {
    let mut owner = Owner::default();
    let mut above = "";
    for name in path.split('/') {
        // Where containerd and kubelet disagree about the driver: `SLICE:cri-containerd:ID`.
        let (slice, rest) = name.split_once(':').unwrap_or((name, ""));
        if let Some(pod) = pod(slice) {
            owner = Owner {
                pod: Some(pod),
                unit: owner.unit,
                ..Owner::default()
            };
        }
        let found = match rest.split_once(':') {
            Some((prefix, id)) => by_prefix(prefix, id),
            None => container(name, above),
        };
        if let Some((container, runtime)) = found {
            owner.container = Some(container);
            owner.runtime = runtime;
        } else if matches!(name.rsplit_once('.'), Some((_, "service" | "scope"))) {
            owner.unit = Some(name);
        }
        above = name;
    }
    owner
}

type Container<'a> = (Cow<'a, str>, Option<&'static str>);

fn container<'a>(name: &'a str, above: &str) -> Option<Container<'a>> {
    if is_id(name) {
        let runtime = (above == "docker").then_some("docker");
        return Some((name.into(), runtime));
    }
    let scope = name.strip_suffix(".scope");
    let by_id = scope.unwrap_or(name).rsplit_once('-');
    if let Some(found) = by_id.and_then(|(prefix, id)| by_prefix(prefix, id)) {
        return Some(found);
    }
    if let Some(machine) = scope.and_then(|scope| scope.strip_prefix("machine-")) {
        let machine = unescaped(machine);
        let is_one = !NO_CONTAINERS.iter().any(|no| machine.starts_with(no));
        return is_one.then_some((machine, Some("systemd-nspawn")));
    }
    let service = name.strip_suffix(".service");
    if let Some(machine) = service.and_then(|service| service.strip_prefix("systemd-nspawn@")) {
        return Some((unescaped(machine), Some("systemd-nspawn")));
    }
    let is_of_lxc = matches!(above, "lxc" | "lxc.payload") && !name.is_empty();
    let payload = name.strip_prefix("lxc.payload.");
    let machine = payload.or_else(|| is_of_lxc.then_some(name))?;
    Some((machine.into(), Some("lxc")))
}

fn by_prefix<'a>(prefix: &str, id: &'a str) -> Option<Container<'a>> {
    let (_, runtime) = PREFIXES.iter().find(|(known, _)| *known == prefix)?;
    is_id(id).then_some((id.into(), Some(*runtime)))
}

fn pod(name: &str) -> Option<Cow<'_, str>> {
    if let Some(uid) = name.strip_prefix("pod").filter(|uid| is_uid(uid)) {
        return Some(uid.into());
    }
    let (above, id) = name.strip_suffix(".slice")?.rsplit_once("pod")?;
    if above.ends_with("-libpod_") {
        return id.strip_prefix('_').filter(|id| is_id(id)).map(Cow::from);
    }
    // In the names of slices, hyphens stand for slashes.
    let uid = id.replace('_', "-");
    (above.contains("kubepods") && is_uid(&uid)).then_some(uid.into())
}

/// A SHA-256 in hexadecimal digits, as runtimes name containers.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A UUID; of pods that kubelet reads from files, a hash.
fn is_uid(text: &str) -> bool {
    let is_hyphen = |index| matches!(index, 8 | 13 | 18 | 23);
    let mut letters = text.bytes().enumerate();
    match text.len() {
        32 => letters.all(|(_, byte)| byte.is_ascii_hexdigit()),
        36 => letters.all(|(index, byte)| match byte {
            b'-' => is_hyphen(index),
            byte => byte.is_ascii_hexdigit() && !is_hyphen(index),
        }),
        _ => false,
    }
}

/// As systemd writes a name in that of a unit: `\x2d` is a hyphen.
fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.contains("\\x") {
        return name.into();
    }
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let code = behind.strip_prefix(b"x").and_then(|code| code.get(..2));
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) if byte == b'\\' => {
                bytes.push(code);
                rest = &behind[3..];
            }
            _ => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3c1b9a1f0f4dd1e2a9c5b7e84a60d2f3b1c8e7d6a5f4e3d2c1b0a9f8e7d6c5b4";
    const NODE: &str = "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a39281706f5e4d3c2b1a0";
    const UID: &str = "2d4a1d5e-6b0c-4f0e-9a77-0f6f3f1f7b11";
    const STATIC: &str = "0b6a4a1f5f7c4d3e8a9b0c1d2e3f4a5b";

    /// Container, runtime, pod, unit; empty: none. `ID`, `NODE`, `UID`, `U_I_D` and `STATIC` stand
    /// for those above.
    const CASES: [(&str, [&str; 4]); 37] = [
        ("/", ["", "", "", ""]),
        ("/system.slice/nginx.service", ["", "", "", "nginx.service"]),
        ("/init.scope", ["", "", "", "init.scope"]),
        (
            "/system.slice/system-getty.slice/getty@tty1.service",
            ["", "", "", "getty@tty1.service"],
        ),
        (
            "/user.slice/user-1000.slice/session-3.scope",
            ["", "", "", "session-3.scope"],
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/sync.service",
            ["", "", "", "sync.service"],
        ),
        // Docker: cgroupfs, systemd, rootless, a parent of its own, one in another.
        ("/docker/ID", ["ID", "docker", "", ""]),
        ("/system.slice/docker-ID.scope", ["ID", "docker", "", ""]),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope",
            ["ID", "docker", "", "user@1000.service"],
        ),
        ("/batch/ID", ["ID", "", "", ""]),
        ("/docker/NODE/docker/ID", ["ID", "docker", "", ""]),
        (
            "/system.slice/docker-ID.scope/init.scope",
            ["ID", "docker", "", "init.scope"],
        ),
        // What serves containers is in none.
        (
            "/system.slice/docker.service",
            ["", "", "", "docker.service"],
        ),
        // containerd alone.
        (
            "/system.slice/nerdctl-ID.scope",
            ["ID", "containerd", "", ""],
        ),
        ("/default/ID", ["ID", "", "", ""]),
        // Kubernetes: the cgroupfs driver, by class of service.
        ("/kubepods/podUID/ID", ["ID", "", "UID", ""]),
        ("/kubepods/burstable/podUID/ID", ["ID", "", "UID", ""]),
        ("/kubepods/besteffort/podUID/ID", ["ID", "", "UID", ""]),
        ("/kubepods/burstable/podSTATIC/ID", ["ID", "", "STATIC", ""]),
        (
            "/kubepods/besteffort/podUID/crio-ID",
            ["ID", "cri-o", "UID", ""],
        ),
        ("/kubepods/besteffort/podUID", ["", "", "UID", ""]),
        // The systemd driver, by runtime.
        (
            "/kubepods.slice/kubepods-podU_I_D.slice/cri-containerd-ID.scope",
            ["ID", "containerd", "UID", ""],
        ),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope",
            ["ID", "containerd", "UID", ""],
        ),
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU_I_D.slice/docker-ID.scope",
            ["ID", "docker", "UID", ""],
        ),
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU_I_D.slice/crio-ID.scope/container",
            ["ID", "cri-o", "UID", ""],
        ),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podSTATIC.slice/crio-ID.scope",
            ["ID", "cri-o", "STATIC", ""],
        ),
        (
            "/system.slice/containerd.service/kubepods-burstable-podU_I_D.slice:cri-containerd:ID",
            ["ID", "containerd", "UID", "containerd.service"],
        ),
        // A node that is a container (kind), and a container that a pod runs.
        (
            "/docker/NODE/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope",
            ["ID", "containerd", "UID", ""],
        ),
        ("/docker/NODE/kubelet/kubepods/podUID", ["", "", "UID", ""]),
        (
            "/kubepods/burstable/podUID/NODE/docker/ID",
            ["ID", "docker", "UID", ""],
        ),
        // Podman: root, rootless, in a pod, in a service of systemd; the watcher is in none.
        (
            "/machine.slice/libpod-ID.scope/container",
            ["ID", "podman", "", ""],
        ),
        (
            "/machine.slice/machine-libpod_pod_NODE.slice/libpod-ID.scope",
            ["ID", "podman", "NODE", ""],
        ),
        (
            "/system.slice/shop.service/libpod-payload-ID",
            ["ID", "podman", "", "shop.service"],
        ),
        (
            "/machine.slice/libpod-conmon-ID.scope",
            ["", "", "", "libpod-conmon-ID.scope"],
        ),
        // systemd-nspawn and LXC have names, and systemd in them units of its own.
        (
            "/machine.slice/systemd-nspawn@deb\\x2dtest.service/payload/system.slice/nginx.service",
            ["deb-test", "systemd-nspawn", "", "nginx.service"],
        ),
        (
            "/machine.slice/machine-qemu\\x2d1\\x2dguest.scope/libvirt/emulator",
            ["", "", "", "machine-qemu\\x2d1\\x2dguest.scope"],
        ),
        (
            "/lxc.payload.web/system.slice/ssh.service",
            ["web", "lxc", "", "ssh.service"],
        ),
    ];

    fn filled(text: &str) -> String {
        let pairs = [("NODE", NODE), ("STATIC", STATIC), ("UID", UID)];
        let mut text = text.replace("U_I_D", &UID.replace('-', "_"));
        for (name, value) in pairs {
            text = text.replace(name, value);
        }
        text.replace("ID", ID)
    }

    #[test]
    fn paths_say_whose_they_are() {
        for (path, expected) in CASES {
            let path = filled(path);
            let [container, runtime, pod, unit] = expected.map(filled);
            let found = owner(&path);
            let found = [
                found.container.as_deref(),
                found.runtime,
                found.pod.as_deref(),
                found.unit,
            ];
            let found = found.map(|it| it.unwrap_or_default().to_owned());
            assert_eq!(found, [container, runtime, pod, unit], "{path}");
        }
        for lxc in ["/lxc/101/ns", "/lxc.payload/101"] {
            assert_eq!(owner(lxc).container.as_deref(), Some("101"), "{lxc}");
        }
        let machine = owner("/machine.slice/machine-web.scope");
        assert_eq!(machine.container.as_deref(), Some("web"));
    }

    #[test]
    fn names_that_only_look_like_it_are_none() {
        for path in [
            "/kubepods/podUID-x/y",
            "/podman.slice/podcast.slice",
            "/docker/volumes",
            "/docker/\u{e9}",
            "/app-docker-NODE0.scope/x",
        ] {
            let path = filled(path);
            let found = owner(&path);
            assert_eq!((found.container, found.pod), (None, None), "{path}");
        }
        assert_eq!(unescaped("a\\x2db\\xzz\\x"), "a-b\\xzz\\x");
    }
}
