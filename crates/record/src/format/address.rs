//! Addresses as digits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::line::Line;

/// Numbers below 256 as decimal digits with a dot after them, and the length of both: the parts of IPv4 addresses.
static OCTETS: [([u8; 4], u8); 256] = {
    let mut octets = [([0; 4], 0); 256];
    let mut number = 0;
    while number < 256 {
        let [first, second, third] = [
            b'0' + (number / 100) as u8,
            b'0' + (number / 10 % 10) as u8,
            b'0' + (number % 10) as u8,
        ];
        octets[number] = match number {
            0..10 => ([third, b'.', 0, 0], 2),
            10..100 => ([second, third, b'.', 0], 3),
            _ => ([first, second, third, b'.'], 4),
        };
        number += 1;
    }
    octets
};

impl Line {
    pub(super) fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.ipv4(address),
            IpAddr::V6(address) => self.ipv6(address),
        }
    }

    #[inline]
    fn ipv4(&mut self, address: Ipv4Addr) {
        let mut block = [0; 16];
        let mut end = 0;
        for octet in address.octets() {
            let (digits, length) = OCTETS[usize::from(octet)];
            block[end..end + 4].copy_from_slice(&digits);
            end += usize::from(length);
        }
        // Without the last dot.
        *self.block(end - 1) = block;
    }

    /// The canonical form of RFC 5952, as the standard library has it but several times faster.
    fn ipv6(&mut self, address: Ipv6Addr) {
        if let [0, 0, 0, 0, 0, 0xffff, ..] = address.segments() {
            let octets = address.octets();
            self.slice(b"::ffff:");
            return self.ipv4(Ipv4Addr::new(
                octets[12], octets[13], octets[14], octets[15],
            ));
        }
        let segments = address.segments();
        let zeros = longest_zeros(segments);
        for (index, segment) in segments.into_iter().enumerate() {
            if zeros.contains(&index) {
                if index == zeros.start {
                    self.slice(b"::");
                }
                continue;
            }
            if index > 0 && index != zeros.end {
                self.byte(b':');
            }
            self.hexadecimal(segment);
        }
    }

    #[inline]
    fn hexadecimal(&mut self, number: u16) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let length = number.checked_ilog2().map_or(1, |bit| bit as usize / 4 + 1);
        // The leading zeros are shifted out; what follows the digits is overwritten later.
        let aligned = u32::from(number) << (4 * (4 - length));
        *self.block(length) = [12, 8, 4, 0].map(|shift| DIGITS[(aligned >> shift & 0xf) as usize]);
    }
}

/// The first of the longest runs of at least two zeros; an empty range past the end if there are none.
fn longest_zeros(segments: [u16; 8]) -> std::ops::Range<usize> {
    let mut longest = 9..9;
    let mut start = 0;
    while start < 8 {
        let length = segments[start..]
            .iter()
            .take_while(|&&segment| segment == 0)
            .count();
        if length >= 2 && length > longest.len() {
            longest = start..start + length;
        }
        start += length + 1;
    }
    longest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(address: IpAddr) -> String {
        let mut line = Line::default();
        line.address(address);
        String::from_utf8_lossy(line.bytes()).into_owned()
    }

    proptest! {
        #[test]
        fn addresses_are_those_of_the_standard_library(
            address: IpAddr,
            segments in proptest::array::uniform8(prop_oneof![Just(0_u16), Just(0xffff), any::<u16>().prop_map(|bits| bits >> (bits % 16))]),
        ) {
            prop_assert_eq!(shown(address), address.to_string());
            let sparse = Ipv6Addr::from(segments);
            prop_assert_eq!(shown(sparse.into()), sparse.to_string());
        }
    }
}
