//! What happens, and what comes of it. Probes have a turn each second, at two TTLs.

use crate::wire::{Body, Packet};

/// TTLs that are probed, and between turns.
pub(crate) const CEILING: u8 = 2;
pub(crate) const INTERVAL_MS: u64 = 1000;

/// Something that happens at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// A packet of the application leaves.
    Leaves(u64, Packet),
    /// The same, with the note of a clone (`own_probe.bpf.h`).
    Noted(u64, Packet),
    /// A reply arrives.
    Arrives(u64, Packet),
    /// A router answers the probe of this number.
    Answers(u64, u32),
    /// A router tells of the application's own packet that left last.
    Tells(u64),
    /// User space has the silent flow probed.
    Silent(u64),
}

pub(crate) struct Fixture {
    pub(crate) says: &'static str,
    pub(crate) steps: &'static [Step],
    pub(crate) expected: &'static [&'static str],
}

const fn tcp(seq: u32, ack: u32, payload: usize) -> Packet {
    flagged(seq, ack, "", payload)
}

const fn flagged(seq: u32, ack: u32, flags: &'static str, payload: usize) -> Packet {
    Packet {
        body: Body::Tcp {
            seq,
            ack,
            flags,
            payload,
        },
        ttl: 64,
    }
}

const fn with_ttl(packet: Packet, ttl: u8) -> Packet {
    Packet { ttl, ..packet }
}

const UDP: Packet = Packet {
    body: Body::Udp { payload: 100 },
    ttl: 64,
};

const fn echo(sequence: u16) -> Packet {
    Packet {
        body: Body::Echo { sequence },
        ttl: 64,
    }
}

use Step::{Answers, Arrives, Leaves, Noted, Silent, Tells};

pub(crate) const FIXTURES: &[Fixture] = &[
    Fixture {
        says: "of a connection the first packet is not cloned; the next ones are when turns have come, and acknowledge less once the peer was told that its data arrived",
        steps: &[
            Leaves(0, tcp(1000, 5000, 0)),
            Leaves(1, tcp(1000, 5000, 100)),
            Leaves(2, tcp(1100, 5000, 100)),
            Arrives(20, tcp(5000, 1200, 300)),
            Leaves(1100, tcp(1200, 5300, 100)),
            Leaves(2200, tcp(1300, 5300, 0)),
        ],
        expected: &[
            "flow",
            "probe ttl 1: tcp seq 1000 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "probe ttl 2: tcp seq 1000 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "clue: 3 left, 0 again",
            "probe ttl 1: tcp seq 1300 ack 5299 flags 0x10 window 512 in 20 bytes, checksum right",
            "probe ttl 2: tcp seq 1300 ack 5299 flags 0x10 window 512 in 20 bytes, checksum right",
        ],
    },
    Fixture {
        says: "nothing arrives here of what the peer sends: what was acknowledged before is older than the connection",
        steps: &[
            Leaves(0, tcp(1000, 5000, 0)),
            Leaves(1, tcp(1000, 6000, 0)),
            Leaves(1100, tcp(1000, 7000, 0)),
        ],
        expected: &[
            "flow",
            "probe ttl 1: tcp seq 1000 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "probe ttl 2: tcp seq 1000 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "probe ttl 1: tcp seq 1000 ack 5999 flags 0x10 window 512 in 20 bytes, checksum right",
            "probe ttl 2: tcp seq 1000 ack 5999 flags 0x10 window 512 in 20 bytes, checksum right",
        ],
    },
    Fixture {
        says: "what is sent again, keep-alives, acknowledgements that were overtaken, and the ends of connections are not cloned",
        steps: &[
            Leaves(0, flagged(999, 0, "S", 0)),
            Leaves(1, tcp(1000, 5000, 100)),
            Leaves(2, tcp(1000, 5000, 100)),
            Leaves(3, tcp(1099, 5000, 0)),
            Leaves(4, flagged(1100, 5000, "F", 0)),
            Leaves(5, tcp(1101, 5001, 0)),
        ],
        expected: &["flow", "closed"],
    },
    Fixture {
        says: "a clone of another program's, and what is sent to die on its way, are left alone",
        steps: &[
            Leaves(0, tcp(1000, 5000, 100)),
            Noted(1, tcp(1100, 5000, 100)),
            Leaves(2, with_ttl(tcp(1100, 5000, 100), 32)),
            Leaves(3, with_ttl(tcp(1100, 5000, 100), 33)),
        ],
        expected: &[
            "flow",
            "probe ttl 1: tcp seq 1100 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "probe ttl 2: tcp seq 1100 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
        ],
    },
    Fixture {
        says: "an answer is told once, and kept from the host; errors that answer no probe pass",
        steps: &[
            Leaves(0, tcp(1000, 5000, 0)),
            Leaves(1, tcp(1000, 5000, 100)),
            Answers(6, 1),
            Tells(7),
            Answers(9, 2),
        ],
        expected: &[
            "flow",
            "probe ttl 1: tcp seq 1000 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "probe ttl 2: tcp seq 1000 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "answer ttl 1 after 5 ms",
            "passed",
            "answer ttl 2 after 8 ms",
        ],
    },
    Fixture {
        says: "datagrams are longer than their packet",
        steps: &[
            Leaves(0, UDP),
            Leaves(500, UDP),
            Leaves(1000, UDP),
            Answers(1003, 4),
        ],
        expected: &[
            "flow",
            "probe ttl 1: udp longer than its packet in 8 bytes",
            "probe ttl 2: udp longer than its packet in 8 bytes",
            "probe ttl 1: udp longer than its packet in 8 bytes",
            "probe ttl 2: udp longer than its packet in 8 bytes",
            "answer ttl 2 after 3 ms",
        ],
    },
    Fixture {
        says: "echo requests have a wrong checksum, and replies are not probed",
        steps: &[
            Leaves(0, echo(9)),
            Arrives(10, echo(9)),
            Leaves(1000, echo(10)),
            Answers(1002, 3),
        ],
        expected: &[
            "flow",
            "probe ttl 1: echo 9 in 8 bytes, checksum wrong",
            "probe ttl 2: echo 9 in 8 bytes, checksum wrong",
            "clue: 1 left, 0 again",
            "probe ttl 1: echo 10 in 8 bytes, checksum wrong",
            "probe ttl 2: echo 10 in 8 bytes, checksum wrong",
            "answer ttl 1 after 2 ms",
        ],
    },
    Fixture {
        says: "a silent connection is probed from its last header, and not once it is closed",
        steps: &[
            Leaves(0, tcp(1000, 5000, 0)),
            Leaves(1, tcp(1000, 5000, 100)),
            Arrives(20, tcp(5000, 1100, 300)),
            Leaves(21, tcp(1100, 5300, 0)),
            Silent(500),
            Silent(1100),
            Leaves(1200, flagged(1100, 5300, "R", 0)),
            Silent(2300),
        ],
        expected: &[
            "flow",
            "probe ttl 1: tcp seq 1000 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "probe ttl 2: tcp seq 1000 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "clue: 2 left, 0 again",
            "probe ttl 1: tcp seq 1100 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "probe ttl 2: tcp seq 1100 ack 5000 flags 0x10 window 512 in 20 bytes, checksum right",
            "closed",
        ],
    },
];
