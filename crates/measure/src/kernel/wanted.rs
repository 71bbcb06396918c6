//! Which interfaces are meant: by name, by pattern, or all.

use super::interfaces::framing_of;
use super::links::{Link, links};

/// What stands for all.
const ANY: &str = "any";

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// That of this name.
    Name(String),
    /// Those of names like this: `*` stands for anything, `?` for one character.
    Pattern(String),
    /// All that carry Ethernet or IP, and show packets which no other shows.
    Any { has_loopback: bool },
}

impl Wanted {
    /// As users write it.
    pub(super) fn read(text: &str, has_loopback: bool) -> Self {
        match text {
            ANY => Self::Any { has_loopback },
            text if text.contains(['*', '?']) => Self::Pattern(text.to_owned()),
            text => Self::Name(text.to_owned()),
        }
    }

    /// As it was written.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Name(text) | Self::Pattern(text) => text,
            Self::Any { .. } => ANY,
        }
    }

    /// The name by which this link is meant, if it is.
    pub(super) fn name_of<'a>(&'a self, link: &'a Link, all: &[Link]) -> Option<&'a str> {
        match self {
            Self::Name(name) => link.is_called(name).then_some(name.as_str()),
            Self::Pattern(pattern) => {
                let mut names = link.names();
                names
                    .any(|name| is_like(name.as_bytes(), pattern.as_bytes()))
                    .then_some(link.name.as_str())
            }
            Self::Any { has_loopback } => {
                let is_meant = framing_of(link.hardware).is_some()
                    && (*has_loopback || link.hardware != libc::ARPHRD_LOOPBACK)
                    && !is_repeated(link, all);
                is_meant.then_some(link.name.as_str())
            }
        }
    }
}

/// The names of those that `any` means, without the loopback interface; none if the kernel does not
/// tell.
pub fn any_interfaces() -> Vec<String> {
    let any = Wanted::read(ANY, false);
    let all = links().unwrap_or_default();
    let meant = all.iter().filter_map(|link| any.name_of(link, &all));
    meant.map(str::to_owned).collect()
}

/// The name by which a link is meant, if it is: that which was given, whatever else means it.
pub(super) fn name_of<'a>(
    wanted: &'a [Wanted],
    link: &'a Link,
    all: &[Link],
) -> Option<(&'a str, bool)> {
    let mut meant = wanted.iter().filter_map(|wanted| {
        let name = wanted.name_of(link, all)?;
        Some((name, matches!(wanted, Wanted::Name(_))))
    });
    let first = meant.next()?;
    let named = (!first.1).then(|| meant.find(|(_, is_named)| *is_named));
    Some(named.flatten().unwrap_or(first))
}

/// Do the packets of this link pass another one that is measured, too? Those of a bridge pass its
/// ports, those of a VLAN or MACVLAN the link below, and those of an IFB were redirected there.
/// With a bond it is the other way: a connection leaves by one port and comes back by another.
fn is_repeated(link: &Link, all: &[Link]) -> bool {
    match link.kind.as_str() {
        "bridge" | "ifb" => return true,
        "vlan" | "macvlan" | "macvtap" | "ipvlan" | "ipvtap" if link.below != 0 => return true,
        _ => {}
    }
    let controller = all.iter().find(|other| other.index == link.controller);
    controller.is_some_and(|controller| matches!(controller.kind.as_str(), "bond" | "team"))
}

/// Goes back to the last `*` when what follows it does not fit.
fn is_like(name: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    let mut star = None;
    while at < name.len() {
        match pattern.get(of) {
            Some(b'*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(wanted) if *wanted == b'?' || *wanted == name[at] => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((place, taken)) = star else {
                    return false;
                };
                star = Some((place, taken + 1));
                at = taken + 1;
                of = place + 1;
            }
        }
    }
    pattern[of..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(index: u32, name: &str, kind: &str) -> Link {
        Link {
            index,
            name: name.to_owned(),
            hardware: libc::ARPHRD_ETHER,
            kind: kind.to_owned(),
            ..Link::default()
        }
    }

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (name, pattern, is_meant) in [
            ("veth0", "veth*", true),
            ("veth", "veth*", true),
            ("xveth0", "veth*", false),
            ("eth0", "eth?", true),
            ("eth10", "eth?", false),
            ("br-aab", "*a*b", true),
            ("br-aac", "*a*b", false),
            ("eth0.5", "*.?", true),
            ("", "*", true),
        ] {
            assert_eq!(
                is_like(name.as_bytes(), pattern.as_bytes()),
                is_meant,
                "{name} {pattern}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_name_is_like_itself_with_anything_put_in(name in "[a-z]{0,8}", place in 0_usize..8) {
            let place = place.min(name.len());
            let pattern = format!("{}*{}", &name[..place], &name[place..]);
            prop_assert!(is_like(name.as_bytes(), pattern.as_bytes()));
            let other = format!("{}x1{}", &name[..place], &name[place..]);
            prop_assert!(is_like(other.as_bytes(), pattern.as_bytes()));
        }
    }

    #[test]
    fn any_leaves_out_what_others_show() {
        let port = Link {
            controller: 2,
            ..link(3, "eth0", "")
        };
        let bonded = Link {
            controller: 4,
            ..link(5, "eth1", "")
        };
        let vlan = Link {
            below: 3,
            ..link(6, "eth0.5", "vlan")
        };
        let far = link(7, "eth9.5", "vlan");
        let any = Wanted::read("any", true);
        let strange = Link {
            hardware: 280,
            ..link(9, "can0", "can")
        };
        let all = [
            strange,
            Link {
                hardware: libc::ARPHRD_LOOPBACK,
                ..link(1, "lo", "")
            },
            link(2, "br0", "bridge"),
            port,
            link(4, "bond0", "bond"),
            bonded,
            vlan,
            far,
            link(8, "ifb0", "ifb"),
        ];
        let meant = all.iter().filter_map(|link| any.name_of(link, &all));
        assert_eq!(meant.collect::<Vec<_>>(), ["lo", "eth0", "bond0", "eth9.5"]);
        assert_eq!(Wanted::read("any", false).name_of(&all[1], &all), None);
        let wanted = [any, Wanted::read("br0", true), Wanted::read("eth0", true)];
        assert_eq!(name_of(&wanted, &all[2], &all), Some(("br0", true)));
        assert_eq!(name_of(&wanted, &all[3], &all), Some(("eth0", true)));
        assert_eq!(name_of(&wanted, &all[1], &all), Some(("lo", false)));
        assert_eq!(name_of(&wanted, &all[0], &all), None);
    }
}
