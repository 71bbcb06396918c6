//! The option field of a TCP header.

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// The timestamp option (RFC 7323 §3.2), in ticks of its sender's choice; the kernel's are
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the clock of the other side as the sender knows it, zero in a first SYN.
    pub echo: u32,
}

/// What the option field of a TCP header says; padding is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Most payload bytes of a segment that the sender takes (RFC 9293 §3.7.1); in a SYN.
    pub maximum_segment_size: Option<u16>,
    /// Bits by which the sender's windows are shifted, 0 to 14 (RFC 7323 §2.2); in a SYN.
    pub window_scale: Option<u8>,
    /// Whether the sender takes selective acknowledgements (RFC 2018 §2); in a SYN.
    pub is_sack_permitted: bool,
    /// Clocks of both sides.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements: first sequence number received and first missing after it, at
    /// most four, three beside timestamps. One that the acknowledgement number covers tells of a
    /// duplicate (RFC 2883).
    pub sack_blocks: Vec<(u32, u32)>,
    /// Options of other kinds, such as Multipath TCP's 30: kind and body.
    pub others: Vec<(u8, Vec<u8>)>,
}

impl TcpOptions {
    /// The option field without its padding.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut field = Vec::new();
        let mut push = |kind: u8, body: &[u8]| {
            field.extend([kind, body.len() as u8 + 2]);
            field.extend(body);
        };
        if let Some(size) = self.maximum_segment_size {
            push(MAXIMUM_SEGMENT_SIZE, &size.to_be_bytes());
        }
        if let Some(scale) = self.window_scale {
            push(WINDOW_SCALE, &[scale]);
        }
        if self.is_sack_permitted {
            push(SACK_PERMITTED, &[]);
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            push(TIMESTAMPS, &words([value, echo]));
        }
        if !self.sack_blocks.is_empty() {
            let blocks = self.sack_blocks.iter();
            let body: Vec<u8> = blocks.flat_map(|&(from, to)| words([from, to])).collect();
            push(SACK, &body);
        }
        for (kind, body) in &self.others {
            push(*kind, body);
        }
        field
    }

    /// Reads an option field; `None` when a length in it is wrong.
    pub(super) fn decode(mut field: &[u8]) -> Option<Self> {
        let mut options = Self::default();
        while let [kind, rest @ ..] = field {
            field = match *kind {
                END => break,
                NO_OPERATION => rest,
                kind => {
                    let length = usize::from(*rest.first()?);
                    options.read(kind, field.get(2..length)?);
                    &field[length..]
                }
            };
        }
        Some(options)
    }

    fn read(&mut self, kind: u8, body: &[u8]) {
        match (kind, body) {
            (MAXIMUM_SEGMENT_SIZE, &[high, low]) => {
                self.maximum_segment_size = Some(u16::from_be_bytes([high, low]));
            }
            (WINDOW_SCALE, &[scale]) => self.window_scale = Some(scale),
            (SACK_PERMITTED, []) => self.is_sack_permitted = true,
            (TIMESTAMPS, body) if body.len() == 8 => {
                self.timestamps = pairs(body)
                    .next()
                    .map(|(value, echo)| Timestamps { value, echo });
            }
            (SACK, body) if body.len() % 8 == 0 => self.sack_blocks.extend(pairs(body)),
            _ => self.others.push((kind, body.to_owned())),
        }
    }
}

/// Two numbers as they are sent.
fn words([first, second]: [u32; 2]) -> [u8; 8] {
    ((u64::from(first) << 32) | u64::from(second)).to_be_bytes()
}

/// All pairs of numbers that were sent.
fn pairs(body: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let (pairs, _) = body.as_chunks();
    pairs.iter().map(|pair| {
        let both = u64::from_be_bytes(*pair);
        ((both >> 32) as u32, both as u32)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        /// Options that fit into a header.
        pub(in crate::peer) fn any_options()(
            maximum_segment_size: Option<u16>,
            window_scale: Option<u8>,
            is_sack_permitted: bool,
            timestamps: Option<(u32, u32)>,
            sack_blocks in prop::collection::vec(any::<(u32, u32)>(), 0..=1),
            others in prop::collection::vec((9..=255_u8, prop::collection::vec(any::<u8>(), 0..6)), 0..=1),
        ) -> TcpOptions {
            let timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
            // 4 + 3 + 2 + 10 + 10 + 7 bytes at most.
            TcpOptions { maximum_segment_size, window_scale, is_sack_permitted, timestamps, sack_blocks, others }
        }
    }

    #[test]
    fn options_of_a_kernel_syn() {
        // mss 1460, sackOK, TS val 1 ecr 0, nop, wscale 7
        let field = [
            2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
        ];
        let expected = TcpOptions {
            maximum_segment_size: Some(1460),
            window_scale: Some(7),
            is_sack_permitted: true,
            timestamps: Some(Timestamps { value: 1, echo: 0 }),
            ..TcpOptions::default()
        };
        assert_eq!(TcpOptions::decode(&field), Some(expected));
    }

    #[test]
    fn wrong_lengths_are_refused() {
        assert_eq!(TcpOptions::decode(&[30]), None);
        assert_eq!(TcpOptions::decode(&[30, 0]), None);
        assert_eq!(TcpOptions::decode(&[30, 1, 0]), None);
        assert_eq!(TcpOptions::decode(&[30, 4, 0]), None);
    }

    proptest! {
        #[test]
        fn decode_after_encode_is_identity(options in any_options()) {
            prop_assert_eq!(TcpOptions::decode(&options.encode()), Some(options));
        }

        #[test]
        fn garbage_never_panics(field in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = TcpOptions::decode(&field);
        }
    }
}
