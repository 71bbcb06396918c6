//! What makes a chain's devices a network: addresses, neighbours, and the threads that forward in
//! place of a kernel.

use super::Script;
use super::plan::{Family, Place};
use crate::router::{self, Attachment, Identity, ScriptedRouter};
use crate::topology::{give_addresses, give_hardware_address, hardware_address, introduce};
use crate::{Layer, LinkEnd, Namespace, Result};

/// Settings of every namespace of a chain: ways there and back may differ, and flows of both
/// families are spread by their ports.
const ROUTING_SETTINGS: [(&str, &str); 4] = [
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/fib_multipath_hash_policy", "1"),
    ("net/ipv6/fib_multipath_hash_policy", "1"),
];

/// A namespace of the client or the server.
pub(super) fn host(name: &str) -> Result<Namespace> {
    let namespace = Namespace::new(name)?;
    namespace.lift_icmp_limits()?;
    for (key, value) in ROUTING_SETTINGS {
        namespace.set(key, value)?;
    }
    Ok(namespace)
}

/// A namespace whose kernel forwards.
pub(super) fn router(name: &str) -> Result<Namespace> {
    let namespace = host(name)?;
    namespace.enable_forwarding()?;
    Ok(namespace)
}

/// A namespace whose kernel does nothing with packets: it has no addresses, and without a route
/// IPv6 would say so to their senders.
pub(super) fn bystander(name: &str) -> Result<Namespace> {
    let namespace = Namespace::new(name)?;
    for scope in ["all", "default"] {
        let key = format!("net/ipv6/conf/{scope}/disable_ipv6");
        namespace.set(&key, "1")?;
    }
    Ok(namespace)
}

/// Joins two namespaces by a veth pair; beside a scripted router its packets are as on a wire.
pub(super) fn connect(ends: &[LinkEnd; 2], has_offloads: bool) -> Result<()> {
    let [near, far] = ends;
    near.namespace
        .connect(&near.interface, &far.namespace, &far.interface)?;
    if !has_offloads {
        for end in ends {
            end.namespace.set_offloads(&end.interface, false)?;
        }
    }
    Ok(())
}

/// Gives both ends of a link their addresses, except those of scripted routers, and on Ethernet
/// their neighbours.
pub(super) fn name(
    place: Place,
    ends: &[LinkEnd; 2],
    are_scripted: [bool; 2],
    layer: Layer,
) -> Result<()> {
    let addresses = addresses(place);
    for ((end, own), is_scripted) in ends.iter().zip(addresses).zip(are_scripted) {
        if !is_scripted {
            give_addresses(end, own)?;
        }
        if layer == Layer::Ethernet {
            give_hardware_address(end, own)?;
        }
    }
    if layer == Layer::Ethernet {
        let others = addresses.into_iter().rev();
        for ((end, others), is_scripted) in ends.iter().zip(others).zip(are_scripted) {
            if !is_scripted {
                introduce(end, others)?;
            }
        }
    }
    Ok(())
}

/// Starts the scripted router `number`, whose links carry `layers`.
pub(super) fn start_script(
    number: usize,
    namespace: &Namespace,
    script: &ScriptedRouter,
    layers: [Layer; 2],
) -> Result<Script> {
    let (before, behind) = (Place::main(number), Place::main(number + 1));
    let [near_neighbour, _] = addresses(before);
    let [_, far_neighbour] = addresses(behind);
    let attachment = |place: Place, layer, neighbour| Attachment {
        interface: place.interface(),
        neighbour: (layer == Layer::Ethernet).then(|| hardware_address(neighbour)),
    };
    let near = attachment(before, layers[0], near_neighbour);
    let far = attachment(behind, layers[1], far_neighbour);
    let identities = Family::BOTH.map(|family| Identity {
        own: before.far(family),
        outside: behind.near(family),
        client: Place::main(1).near(family),
    });
    Ok(Script {
        number,
        translates: script.translation.is_some(),
        _worker: router::start(namespace, script, identities, &near, &far)?,
    })
}

/// Those of the near end, then those of the far end, IPv4 first.
fn addresses(place: Place) -> [[std::net::IpAddr; 2]; 2] {
    [
        Family::BOTH.map(|family| place.near(family)),
        Family::BOTH.map(|family| place.far(family)),
    ]
}
