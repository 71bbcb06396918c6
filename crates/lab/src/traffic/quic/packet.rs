//! The fields of QUIC packets that are not encrypted.

use super::Version;

/// Every connection identifier has this length.
pub(super) const ID_BYTES: usize = 8;
pub(super) type ConnectionId = [u8; ID_BYTES];

/// Hides the packet numbers, as header protection does; both sides of the lab know it.
pub(super) const NUMBER_MASK: u64 = 0x5bd1_e995_97f4_a7c1;

pub(super) const FIXED_BIT: u8 = 0x40;
pub(super) const LONG_FORM: u8 = 0x80;
pub(super) const SPIN_BIT: u8 = 0x20;

impl Version {
    pub(super) fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 0x6b33_43cf,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PacketType {
    Initial,
    Handshake,
}

impl PacketType {
    /// Version 2 numbers the types anew, RFC 9369 §3.2.
    pub(super) fn bits(self, version: Version) -> u8 {
        match (self, version) {
            (Self::Initial, Version::V1) => 0,
            (Self::Initial, Version::V2) => 1,
            (Self::Handshake, Version::V1) => 2,
            (Self::Handshake, Version::V2) => 3,
        }
    }
}

/// The fields of an Initial packet that the lab's endpoints need.
#[derive(Debug)]
pub(super) struct LongHeader {
    pub(super) version: Version,
    pub(super) source_id: ConnectionId,
}

impl LongHeader {
    pub(super) fn parse(datagram: &[u8]) -> Option<Self> {
        let (first, rest) = datagram.split_first()?;
        let (number, rest) = rest.split_first_chunk()?;
        let version = match u32::from_be_bytes(*number) {
            1 => Version::V1,
            0x6b33_43cf => Version::V2,
            _ => return None,
        };
        let initial = LONG_FORM | FIXED_BIT | PacketType::Initial.bits(version) << 4;
        // One byte of length before each of the two identifiers.
        let source_id = rest.get(ID_BYTES + 2..2 * ID_BYTES + 2)?;
        (first & 0xf0 == initial && usize::from(rest[0]) == ID_BYTES).then_some(Self {
            version,
            source_id: source_id.try_into().ok()?,
        })
    }
}

/// Spin bit and number of a short-header packet to `own_id`.
pub(super) fn parse_short(datagram: &[u8], own_id: ConnectionId) -> Option<(bool, u64)> {
    let (first, rest) = datagram.split_first()?;
    let (id, rest) = rest.split_first_chunk()?;
    let number = u64::from_be_bytes(*rest.first_chunk()?) ^ NUMBER_MASK;
    (first & (LONG_FORM | FIXED_BIT) == FIXED_BIT && *id == own_id)
        .then_some((first & SPIN_BIT != 0, number))
}
