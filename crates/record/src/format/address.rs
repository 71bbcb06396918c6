//! Addresses as digits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::line::Line;

/// Numbers below 256 as decimal digits with a dot after them, and the length of both: the parts of
/// IPv4 addresses.
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
        let (zeros_start, zeros_end) = zeros(segments);
        for &segment in &segments[..zeros_start] {
            self.segment(segment);
        }
        if zeros_start < zeros_end {
            // A segment has brought the first colon.
            self.slice(if zeros_start == 0 { b"::" } else { b":" });
        }
        for &segment in &segments[zeros_end..] {
            self.segment(segment);
        }
        if zeros_end < 8 || zeros_start == zeros_end {
            self.take_back(1);
        }
    }

    /// Hexadecimal digits and a colon.
    #[inline]
    fn segment(&mut self, number: u16) {
        let length = 4 - (number | 1).leading_zeros() / 4;
        // Octets, then digits in bytes of their own, the first one in the lowest byte.
        let octets = (u32::from(number) >> 8) | (u32::from(number) & 0xff) << 16;
        let digits = ((octets >> 4) & 0x000f_000f) | (octets & 0x000f_000f) << 8;
        let letters = ((digits + 0x0606_0606) >> 4) & 0x0101_0101;
        let shown = digits + 0x3030_3030 + letters * u32::from(b'a' - b'9' - 1);
        // The leading zeros are shifted out; what follows the colon is overwritten later.
        let shown = u64::from(shown) >> (8 * (4 - length)) | u64::from(b':') << (8 * length);
        *self.block(length as usize + 1) = shown.to_le_bytes();
    }
}

/// The first of the longest runs of at least two zeros: where it starts and ends. Both are 8 if
/// there are none.
#[inline]
fn zeros(segments: [u16; 8]) -> (usize, usize) {
    let mut mask = 0_u8;
    for (index, segment) in segments.into_iter().enumerate() {
        mask |= u8::from(segment == 0) << index;
    }
    let (start, end) = ZEROS[usize::from(mask)];
    (start.into(), end.into())
}

/// What [`zeros`] gives, for each set of segments that are zero.
static ZEROS: [(u8, u8); 256] = {
    let mut zeros = [(8, 8); 256];
    let mut mask = 0_usize;
    while mask < 256 {
        let mut longest = 1;
        let mut start = 0;
        while start < 8 {
            let length = (mask >> start).trailing_ones() as u8;
            if length > longest {
                longest = length;
                zeros[mask] = (start, start + length);
            }
            start += length + 1;
        }
        mask += 1;
    }
    zeros
};

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
