//! Packets that are lost, late, doubled or damaged, and how the connection gets over it.

use std::net::SocketAddr;
use std::time::Duration;

use fathom_lab::{PacketKind, Rule, Shared, Topology};
use fathom_tests::Prediction;
use serde_json::Value;

use crate::cases::{Cases, Script, established, handshake};
use crate::stage::{
    Family, MILLISECOND, ONE_WAY, Pair, ROUND_TRIP, SECOND, SEGMENT, Stage, about, lab, timed,
};

// The ports of the cases.
const CALM: u16 = 5000;
const LOST_SYN: u16 = 5002;
const LOST_SYN_ACK: u16 = 5004;
const ONE_TIMEOUT: u16 = 5006;
const THREE_TIMEOUTS: u16 = 5008;
const FAST_RECOVERY: u16 = 5010;
const REORDERED: u16 = 5012;
const REORDERED_FAR: u16 = 5014;
const DUPLICATED: u16 = 5016;
const CORRUPTED: u16 = 5018;
pub(crate) const SCRIPTS: [(u16, Script); 10] = [
    (CALM, upload),
    (LOST_SYN, upload),
    (LOST_SYN_ACK, upload),
    (ONE_TIMEOUT, upload_and_more),
    (THREE_TIMEOUTS, upload_and_more),
    (FAST_RECOVERY, upload),
    (REORDERED, upload),
    (REORDERED_FAR, upload),
    (DUPLICATED, upload),
    (CORRUPTED, upload),
];

/// Segments of an upload: the initial congestion window, so that all are on the way before the
/// first is acknowledged.
const SEGMENTS: usize = 10;
/// Timers start from the first round trip, that of the handshake: 40 ms smoothed, and its deviation
/// counts as 200 ms at least.
const TIMEOUT: Duration = Duration::from_millis(240);

/// Holds a case against what was predicted; all are played for the first test that asks.
fn check(case: u16, client: &[Prediction], server: &[Prediction]) {
    static RUN: Shared<Cases> = Shared::new();
    RUN.get(|| Cases::play(Stage::over(prepare()), &SCRIPTS))
        .check(case, client, server);
}

/// The lab that the scripts are for.
pub(crate) fn prepare() -> Topology {
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    for family in Family::BOTH {
        let nth = |number, kind, case| Rule::nth(number, kind).on_port(family.port(case));
        let data = |number, case| nth(number, PacketKind::Data, case);
        forward.extend([
            nth(1, PacketKind::Syn, LOST_SYN),
            nth(2, PacketKind::Syn, LOST_SYN_ACK),
            data(11, ONE_TIMEOUT),
            data(11, THREE_TIMEOUTS).times(3),
            data(3, FAST_RECOVERY),
            data(8, REORDERED).delay(5 * MILLISECOND),
            data(3, REORDERED_FAR).delay(ONE_WAY),
            data(3, DUPLICATED).duplicate(),
            data(3, CORRUPTED).corrupt(),
        ]);
        backward.push(nth(1, PacketKind::SynAck, LOST_SYN_ACK));
    }
    lab(forward, backward)
}

fn upload(lab: &Topology, address: SocketAddr) {
    let mut pair = Pair::open(lab, address);
    pair.upload(SEGMENTS);
    pair.close();
}

fn upload_and_more(lab: &Topology, address: SocketAddr) {
    let mut pair = Pair::open(lab, address);
    pair.upload(SEGMENTS);
    pair.upload(1);
    pair.close();
}

/// The end of a client's connection that had sent the whole upload since it was established: its
/// bytes, the server's one, and a FIN.
fn uploaded() -> Prediction {
    Prediction::new("ESTABLISHED", "FINISHED", "FIN")
        .with("bytes_sent", SEGMENTS * SEGMENT)
        .with("packets_sent", SEGMENTS)
        .with("bytes_acknowledged", SEGMENTS * SEGMENT)
        .with("packets_acknowledged", SEGMENTS + 1)
        .with("bytes_received", 1)
        .with("packets_received", 1)
}

/// The same at the server.
fn downloaded() -> Prediction {
    Prediction::new("ESTABLISHED", "FINISHED", "FIN")
        .with("bytes_sent", 1)
        .with("packets_sent", 1)
        .with("bytes_acknowledged", 1)
        .with("packets_acknowledged", 2)
        .with("bytes_received", SEGMENTS * SEGMENT)
        .with("packets_received", SEGMENTS)
}

#[fathom_lab::test]
fn calm() {
    check(
        CALM,
        &[established(), uploaded()],
        &[established(), downloaded()],
    );
}

/// The first SYN is lost; the second goes after the initial timeout of a second (RFC 6298, 2.1) and
/// is answered at once. The server sees the second only.
#[fathom_lab::test]
fn lost_syn() {
    let client = established()
        .with("packets_lost", 1)
        .with("packets_retransmitted", 1)
        .with("stalls", 1)
        .within("duration_ns", timed(SECOND + ROUND_TRIP))
        .within("establishment_ns", timed(SECOND + ROUND_TRIP))
        .within("stalled_ns", about(ROUND_TRIP));
    check(
        LOST_SYN,
        &[client, uploaded()],
        &[established(), downloaded()],
    );
}

/// The SYN-ACK is lost, and the second SYN, which would call for another one. Client and server
/// send again after a second each, the server half a round trip later; its SYN-ACK establishes the
/// connection at the client a second and a round trip after the first SYN, whose timestamp it still
/// echoes. How long the client is stalled depends on how late either timer is. The server's socket
/// comes to be with the handshake's last packet and knows when its last SYN-ACK went, but not the
/// first: its profile starts there and has no establishment time.
#[fathom_lab::test]
fn lost_syn_ack() {
    let late = || timed(SECOND + ROUND_TRIP);
    let client = established()
        .with("packets_lost", 1)
        .with("packets_retransmitted", 1)
        .with("stalls", 1)
        .within("duration_ns", late())
        .within("establishment_ns", late())
        .within("srtt_ns", late())
        .within("rtt_min_ns", late())
        .within("stalled_ns", Duration::ZERO..=ROUND_TRIP + SECOND / 8);
    let server = handshake()
        .with("packets_retransmitted", 1)
        .with("syn_acks_retransmitted", 1)
        .with("stalls", 1)
        .with("establishment_ns", Value::Null);
    check(LOST_SYN_ACK, &[client, uploaded()], &[server, downloaded()]);
}

/// After the upload one more segment, which nothing follows, is lost `timeouts` times. The timer
/// doubles each time; the last copy is acknowledged a round trip later, and with it everything that
/// was outstanding. The first timeout ends a profile before anything is sent again, so that what
/// happens until the recovery is all in the next.
fn timeouts(case: u16, timeouts: u32) {
    let copies = u64::from(timeouts);
    let segment = SEGMENT as u64;
    let stalled = TIMEOUT * ((1 << timeouts) - 2) + ROUND_TRIP;
    let client = [
        established(),
        uploaded_and_stalled(),
        Prediction::new("UPDATE", "UPDATE", "recovered")
            .with("bytes_sent", copies * segment)
            .with("packets_sent", copies)
            .with("bytes_retransmitted", copies * segment)
            .with("packets_retransmitted", copies)
            // The first time it was marked as lost belongs to the profile before.
            .with("packets_lost", copies - 1)
            .with("bytes_acknowledged", segment)
            .with("packets_acknowledged", 1)
            .with("stalls", timeouts)
            .within("duration_ns", timed(stalled))
            .within("stalled_ns", timed(stalled)),
        Prediction::new("UPDATE", "FINISHED", "FIN")
            .with("packets_acknowledged", 1)
            .with("bytes_received", 1)
            .with("packets_received", 1)
            .within("stalled_ns", about(Duration::ZERO)),
    ];
    let server = downloaded()
        .with("bytes_sent", 2)
        .with("packets_sent", 2)
        .with("bytes_acknowledged", 2)
        .with("packets_acknowledged", 3)
        .with("bytes_received", (SEGMENTS + 1) * SEGMENT)
        .with("packets_received", SEGMENTS + 1);
    check(case, &client, &[established(), server]);
}

/// The upload is over, one more segment is out and marked as lost.
fn uploaded_and_stalled() -> Prediction {
    Prediction::new("ESTABLISHED", "UPDATE", "lossy")
        .with("bytes_sent", (SEGMENTS + 1) * SEGMENT)
        .with("packets_sent", SEGMENTS + 1)
        .with("bytes_acknowledged", SEGMENTS * SEGMENT)
        .with("packets_acknowledged", SEGMENTS)
        .with("bytes_received", 1)
        .with("packets_received", 1)
        .with("packets_lost", 1)
        .within("stalled_ns", about(Duration::ZERO))
}

/// The example of COP2, section 2: four profiles.
#[fathom_lab::test]
fn tail_loss_with_one_timeout() {
    timeouts(ONE_TIMEOUT, 1);
}

#[fathom_lab::test]
fn tail_loss_with_three_timeouts() {
    timeouts(THREE_TIMEOUTS, 3);
}

/// The third of ten segments is lost. The seven behind it come out of order, 1000 to 7000 bytes too
/// early: in the mean 4000, with the variance of seven numbers in a row, (7² - 1) / 12, times
/// 1000². The third selective acknowledgement has it sent again (RFC 8985), long before a timeout.
fn out_of_order(prediction: Prediction) -> Prediction {
    prediction
        .with("packets_out_of_order", 7)
        .with("bytes_out_of_order", 7 * SEGMENT)
        .with("out_of_order_distance_mean_bytes", 4000.0)
        .with("out_of_order_distance_variance", 4e6)
        .with("out_of_order_distance_max_bytes", 7000)
}

/// One segment more than the upload was sent.
fn uploaded_and_one_again() -> Prediction {
    uploaded()
        .with("bytes_sent", (SEGMENTS + 1) * SEGMENT)
        .with("packets_sent", SEGMENTS + 1)
        .with("bytes_retransmitted", SEGMENT)
        .with("packets_retransmitted", 1)
        .with("packets_lost", 1)
}

#[fathom_lab::test]
fn fast_recovery() {
    check(
        FAST_RECOVERY,
        &[established(), uploaded_and_one_again()],
        &[established(), out_of_order(downloaded())],
    );
}

/// To the connection a damaged segment is a lost one, but for the count of packets, which comes
/// before the checksum.
#[fathom_lab::test]
fn corruption() {
    check(
        CORRUPTED,
        &[established(), uploaded_and_one_again()],
        &[
            established(),
            out_of_order(downloaded())
                .with("packets_received", SEGMENTS + 1)
                .with("checksum_errors", 1),
        ],
    );
}

/// The eighth of ten segments comes 5 ms late, after the two behind it. That is less than the
/// quarter of a round trip that the sender waits when it has but two selective acknowledgements
/// (RFC 8985, 6.2), so it sends nothing again; then it sees that a segment it had not sent again
/// was late.
#[fathom_lab::test]
fn reordering() {
    check(
        REORDERED,
        &[established(), uploaded().with("reordering_seen", 1)],
        &[
            established(),
            downloaded()
                .with("packets_out_of_order", 2)
                .with("bytes_out_of_order", 2 * SEGMENT)
                .with("out_of_order_distance_mean_bytes", 1500.0)
                .with("out_of_order_distance_variance", 250_000.0)
                .with("out_of_order_distance_max_bytes", 2000),
        ],
    );
}

/// The third of ten comes after all seven behind it: three selective acknowledgements have it sent
/// again for nothing. It is late by half a round trip, which is as far from when the copy leaves as
/// from when the copy arrives. The copy is a whole duplicate, which the receiver reports (RFC
/// 2883): by that the sender counts it as arrived too. A segment that was sent again before it was
/// acknowledged is no sign of reordering.
#[fathom_lab::test]
fn reordering_taken_for_loss() {
    let client = uploaded_and_one_again()
        .with("packets_acknowledged", SEGMENTS + 2)
        .with("packets_reported_duplicate", 1);
    check(
        REORDERED_FAR,
        &[established(), client],
        &[
            established(),
            out_of_order(downloaded())
                .with("packets_received", SEGMENTS + 1)
                .with("packets_duplicate", 1)
                .with("bytes_duplicate", SEGMENT),
        ],
    );
}

/// The network doubles the third segment; the receiver reports the copy.
#[fathom_lab::test]
fn duplication() {
    check(
        DUPLICATED,
        &[
            established(),
            uploaded().with("packets_reported_duplicate", 1),
        ],
        &[
            established(),
            downloaded()
                .with("packets_received", SEGMENTS + 1)
                .with("packets_duplicate", 1)
                .with("bytes_duplicate", SEGMENT),
        ],
    );
}
