//! Which probes this kernel has, and what profiles lack without the others.

use std::fmt;

use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Struct, Typedef};
use libbpf_rs::btf::{Btf, BtfType, ReferencesType as _};

use super::Indicator;
use crate::Error;
use crate::kernel::NO_GROUPS;

/// A set of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeSet {
    /// Tracepoints and what hangs on the root control group.
    Tracepoint,
    /// Entry and exit of the functions of COP2's table 2.
    Fentry,
}

impl ProbeSet {
    /// Both, the one that is preferred first.
    pub const ALL: [Self; 2] = [Self::Tracepoint, Self::Fentry];

    /// The name that options and messages use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tracepoint => "tracepoint",
            Self::Fentry => "fentry",
        }
    }
}

impl fmt::Display for ProbeSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A BPF program, and what it is for.
struct Probe {
    program: &'static str,
    /// `None`: in both sets.
    set: Option<ProbeSet>,
    indicator: Indicator,
    needs: Needs,
}

/// What a program hangs on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Needs {
    /// A tracepoint with at least so many arguments.
    Tracepoint(&'static str, usize),
    /// A function that the compiler left whole.
    Function(&'static str),
    /// The version 2 hierarchy of control groups.
    ControlGroups,
    /// An iterator: its function.
    Iterator(&'static str),
    /// A field of a struct, since some version of Linux.
    Field(&'static str, &'static str, &'static str),
    /// What there is not: why.
    Nothing(&'static str),
}

const fn probe(
    program: &'static str,
    set: Option<ProbeSet>,
    indicator: Indicator,
    needs: Needs,
) -> Probe {
    Probe {
        program,
        set,
        indicator,
        needs,
    }
}

const TRACEPOINT: Option<ProbeSet> = Some(ProbeSet::Tracepoint);
const FENTRY: Option<ProbeSet> = Some(ProbeSet::Fentry);

/// What the kernel has where it was built with MPTCP.
const MPTCP: Needs = Needs::Field("mptcp_sock", "conn_list", "5.6");

const PROBES: [Probe; 28] = {
    use Indicator as I;
    use Needs::{ControlGroups, Field, Function, Iterator, Nothing, Tracepoint};
    [
        probe(
            "tracepoint_state",
            TRACEPOINT,
            I::Connections,
            Tracepoint("inet_sock_set_state", 3),
        ),
        probe(
            "tracepoint_congestion",
            TRACEPOINT,
            I::Stalls,
            Tracepoint("tcp_cong_state_set", 2),
        ),
        probe(
            "tracepoint_drop",
            TRACEPOINT,
            I::Duplicates,
            Tracepoint("kfree_skb", 4),
        ),
        probe(
            "tracepoint_drop",
            TRACEPOINT,
            I::Checksums,
            Tracepoint("kfree_skb", 4),
        ),
        probe(
            "fentry_drop",
            FENTRY,
            I::Checksums,
            Tracepoint("kfree_skb", 4),
        ),
        probe(
            "tracepoint_attempt4",
            TRACEPOINT,
            I::Attempts,
            ControlGroups,
        ),
        probe(
            "tracepoint_attempt6",
            TRACEPOINT,
            I::Attempts,
            ControlGroups,
        ),
        probe(
            "tracepoint_accept4",
            TRACEPOINT,
            I::Acceptance,
            ControlGroups,
        ),
        probe(
            "tracepoint_accept6",
            TRACEPOINT,
            I::Acceptance,
            ControlGroups,
        ),
        probe(
            "fentry_state",
            FENTRY,
            I::Connections,
            Function("tcp_set_state"),
        ),
        probe(
            "fexit_timeout",
            FENTRY,
            I::Stalls,
            Function("tcp_enter_loss"),
        ),
        probe(
            "fexit_recovery",
            FENTRY,
            I::Stalls,
            Function("tcp_fastretrans_alert"),
        ),
        probe(
            "fentry_segment",
            FENTRY,
            I::Duplicates,
            Function("tcp_validate_incoming"),
        ),
        probe(
            "fexit_segment",
            FENTRY,
            I::Disorder,
            Function("tcp_validate_incoming"),
        ),
        probe(
            "fexit_connect4",
            FENTRY,
            I::Attempts,
            Function("tcp_v4_connect"),
        ),
        probe(
            "fexit_connect6",
            FENTRY,
            I::Attempts,
            Function("tcp_v6_connect"),
        ),
        probe(
            "fexit_accept",
            FENTRY,
            I::Acceptance,
            Function("inet_csk_accept"),
        ),
        probe("socket_operation", None, I::RoundTrips, ControlGroups),
        probe("socket_operation", TRACEPOINT, I::Disorder, ControlGroups),
        probe("tracepoint_state", TRACEPOINT, I::Mptcp, MPTCP),
        probe("fentry_state", FENTRY, I::Mptcp, MPTCP),
        probe("fentry_meta_state", FENTRY, I::Mptcp, MPTCP),
        probe(
            "tracepoint_state",
            TRACEPOINT,
            I::MptcpBytes,
            Field("mptcp_sock", "bytes_retrans", "6.5"),
        ),
        probe(
            "fentry_state",
            FENTRY,
            I::MptcpBytes,
            Field("mptcp_sock", "bytes_retrans", "6.5"),
        ),
        probe(
            "fentry_meta_timeout",
            FENTRY,
            I::MptcpStalls,
            Function("__mptcp_retrans"),
        ),
        probe(
            "",
            TRACEPOINT,
            I::MptcpStalls,
            Nothing("no tracepoint tells of them: they need probes of functions"),
        ),
        probe(
            "",
            None,
            I::MptcpData,
            Nothing("Linux counts them for a whole network namespace only"),
        ),
        probe("look_through", None, I::Existing, Iterator("bpf_iter_tcp")),
    ]
};

/// A BPF program to be loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProbeProgram {
    pub(super) name: &'static str,
    pub(super) needs: Needs,
}

/// What a set gives only in part, where the other gives all.
struct Part {
    set: ProbeSet,
    indicator: Indicator,
    note: &'static str,
}

const PARTS: [Part; 2] = [
    Part {
        set: ProbeSet::Tracepoint,
        indicator: Indicator::Attempts,
        note: "attempts that find no route: a second later, and not the error; the set fentry knows it",
    },
    Part {
        set: ProbeSet::Tracepoint,
        indicator: Indicator::Acceptance,
        note: "process and accept-queue time of servers: of those that ask for the peer's address when they accept; the set fentry has them all",
    },
];

/// What a set can do on this kernel.
#[derive(Debug, Clone)]
pub struct Probes {
    /// The set.
    pub set: ProbeSet,
    /// Programs to be loaded.
    pub(super) programs: Vec<ProbeProgram>,
    /// What profiles lack, and why.
    pub missing: Vec<(Indicator, String)>,
    /// Why the kernel does not take the set at all.
    pub refusal: Option<String>,
    /// What is probed only in part, a sentence each.
    pub notes: Vec<String>,
}

impl Probes {
    /// What `set` can do, as far as the kernel's description of itself tells.
    fn of(set: ProbeSet, kernel: &Kernel) -> Self {
        let mut found = Self {
            set,
            programs: Vec::new(),
            missing: Vec::new(),
            refusal: None,
            notes: Vec::new(),
        };
        for probe in PROBES
            .iter()
            .filter(|probe| probe.set.is_none_or(|its| its == set))
        {
            let mut programs = found.programs.iter();
            let is_known = programs.any(|known| known.name == probe.program);
            match kernel.obstacle(probe.needs) {
                None if is_known => {}
                None => found.programs.push(ProbeProgram {
                    name: probe.program,
                    needs: probe.needs,
                }),
                Some(why) => found.miss(probe.indicator, why),
            }
        }
        found
    }

    pub(super) fn miss(&mut self, indicator: Indicator, why: String) {
        if self.can(indicator) {
            self.missing.push((indicator, why));
        }
    }

    /// What the set gives only in part where the other gives all, a sentence each.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        let parts = PARTS
            .iter()
            .filter(|part| part.set == self.set && self.can(part.indicator));
        parts.map(|part| part.note)
    }

    /// Whether profiles have this.
    pub fn can(&self, indicator: Indicator) -> bool {
        self.missing
            .iter()
            .all(|(missing, _)| *missing != indicator)
    }
}

/// The kernel's description of itself.
pub(super) struct Kernel {
    btf: Btf<'static>,
    has_groups: bool,
}

impl Kernel {
    pub(super) fn examine(has_groups: bool) -> Result<Self, Error> {
        let btf = Btf::from_vmlinux().map_err(|error| Error::Unsupported {
            needs: "profiles need a kernel that describes its types (CONFIG_DEBUG_INFO_BTF)"
                .to_owned(),
            found: format!("/sys/kernel/btf/vmlinux cannot be read ({error})"),
            remedy: "use a kernel of a distribution".to_owned(),
        })?;
        Ok(Self { btf, has_groups })
    }

    /// All sets, the preferred first: the one that lacks less.
    pub(super) fn sets(&self) -> Vec<Probes> {
        let mut sets: Vec<Probes> = ProbeSet::ALL
            .iter()
            .map(|set| Probes::of(*set, self))
            .collect();
        sets.sort_by_key(|set| set.missing.len());
        sets
    }

    /// What a set can do.
    pub(super) fn set(&self, set: ProbeSet) -> Probes {
        Probes::of(set, self)
    }

    fn obstacle(&self, needs: Needs) -> Option<String> {
        match needs {
            Needs::Tracepoint(name, wanted) => match self.tracepoint_arguments(name) {
                None => Some(format!("this kernel has no tracepoint {name}")),
                Some(count) if count < wanted => Some(format!(
                    "the tracepoint {name} does not say whose packet it is before Linux 6.12"
                )),
                Some(_) => None,
            },
            Needs::Function(name) | Needs::Iterator(name) => self
                .btf
                .type_by_name::<Func<'_>>(name)
                .is_none()
                .then(|| format!("this kernel has no function {name} that can be probed")),
            Needs::Field(structure, field, version) => {
                (!self.has_field(structure, field)).then(|| {
                    format!("this kernel has no {structure}.{field} (Linux {version}, with MPTCP)")
                })
            }
            Needs::Nothing(why) => Some(why.to_owned()),
            Needs::ControlGroups => (!self.has_groups).then(|| NO_GROUPS.to_owned()),
        }
    }

    fn has_field(&self, structure: &str, field: &str) -> bool {
        let found = self.btf.type_by_name::<Struct<'_>>(structure);
        found.is_some_and(|found| {
            found
                .iter()
                .any(|member| member.name.is_some_and(|name| name == field))
        })
    }

    /// Arguments of a tracepoint, without the one that all have.
    fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        let callback = self
            .btf
            .type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))?;
        let pointer: BtfType<'_> = callback.referenced_type();
        let pointer = Ptr::try_from(pointer).ok()?;
        let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
        Some(function.iter().count().saturating_sub(1))
    }
}
