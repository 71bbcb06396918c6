//! By which interface packets to an address leave.

use std::io;
use std::net::IpAddr;

use fathom_measure::kernel::rtnetlink::{Questions, add_attribute, attributes, u32_at};

/// Bytes of `struct rtmsg`.
const HEADER: usize = 12;
/// The kinds of message and attribute (`linux/rtnetlink.h`).
const GET_ROUTE: u16 = 26;
const NEW_ROUTE: u16 = 24;
const DESTINATION: u16 = 1;
const INTERFACE: u16 = 4;
/// The families as the kernel numbers them.
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// The interface's name.
///
/// # Errors
/// When there is no route.
pub(super) fn interface_to(address: IpAddr) -> io::Result<String> {
    let mut question = vec![0; HEADER];
    let (family, octets) = match address {
        IpAddr::V4(address) => (IPV4, address.octets().to_vec()),
        IpAddr::V6(address) => (IPV6, address.octets().to_vec()),
    };
    question[0] = family;
    question[1] = 8 * octets.len() as u8;
    add_attribute(&mut question, DESTINATION, &octets);
    let mut found = None;
    Questions::open()?.ask(GET_ROUTE, &question, |kind, answer| {
        if kind == NEW_ROUTE {
            let behind = answer.get(HEADER..).unwrap_or_default();
            let interface = attributes(behind).find(|(kind, _)| *kind == INTERFACE);
            found = interface.and_then(|(_, value)| u32_at(value, 0));
        }
    })?;
    let index = found.ok_or(io::ErrorKind::NetworkUnreachable)?;
    let name = nix::net::if_::if_indextoname(index)?;
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_behind_the_loopback_interface() {
        assert_eq!(interface_to([127, 0, 0, 1].into()).unwrap(), "lo");
    }
}
