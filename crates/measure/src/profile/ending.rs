//! How a connection ended: from the state it was in and the error that its socket holds.

use super::State;

/// The state of a socket that waits for the answer to its SYN.
pub(super) const SYN_SENT: u8 = 2;
const FIN_WAIT2: u8 = 5;
const TIME_WAIT: u8 = 6;
const LAST_ACK: u8 = 9;
const CLOSING: u8 = 11;

/// Why what goes on has a last record.
pub(super) const END_OF_MEASUREMENT: &str = "end of measurement";

/// Why a record ends, as IPFIX has it (flowEndReason).
pub(super) fn flow_end_reason(state: State, reason: &str) -> &'static str {
    match state {
        _ if reason == END_OF_MEASUREMENT => "forced end",
        State::New | State::Established | State::Update => "active timeout",
        State::Finished | State::Broken | State::Unreachable => "end of flow",
        State::Desync => "lack of resources",
    }
}

/// Is there nothing more to come?
pub(super) fn is_last(state: State, reason: &str) -> bool {
    flow_end_reason(state, reason) != "active timeout"
}

/// The last state of a connection that was in `old_state`, and why.
pub(super) fn ending(old_state: u8, error: u32) -> (State, &'static str) {
    match error.cast_signed() {
        0 => match old_state {
            SYN_SENT => (State::Broken, "given up by this host"),
            FIN_WAIT2 | TIME_WAIT | LAST_ACK | CLOSING => (State::Finished, "FIN"),
            _ => (State::Broken, "reset by this host"),
        },
        libc::ECONNREFUSED => (State::Broken, "refused"),
        libc::ECONNRESET | libc::EPIPE => (State::Broken, "reset by the peer"),
        libc::ECONNABORTED => (State::Broken, "aborted by this host"),
        libc::ETIMEDOUT => (State::Unreachable, "timeout"),
        error => (State::Unreachable, network_error(error)),
    }
}

/// Why `connect()` failed before anything was sent; zero: only that it did is known.
pub(super) fn connect_error(error: u32) -> &'static str {
    match error {
        0 => "no route, or no free port",
        error => network_error(error.cast_signed()),
    }
}

fn network_error(error: i32) -> &'static str {
    match error {
        libc::ENETUNREACH => "network unreachable",
        libc::EHOSTUNREACH => "host unreachable",
        libc::ENETDOWN => "network down",
        libc::EHOSTDOWN => "host down",
        libc::EACCES | libc::EPERM => "forbidden",
        libc::EADDRNOTAVAIL => "no free port",
        libc::EPROTO => "protocol error",
        libc::ENOPROTOOPT => "protocol unreachable",
        libc::EMSGSIZE => "packet too big",
        _ => "network error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings() {
        let error = |error: i32| error.cast_unsigned();
        assert_eq!(ending(LAST_ACK, 0), (State::Finished, "FIN"));
        assert_eq!(ending(1, 0), (State::Broken, "reset by this host"));
        assert_eq!(
            ending(1, error(libc::ECONNRESET)),
            (State::Broken, "reset by the peer")
        );
        assert_eq!(
            ending(SYN_SENT, error(libc::ECONNREFUSED)),
            (State::Broken, "refused")
        );
        assert_eq!(
            ending(SYN_SENT, error(libc::ETIMEDOUT)),
            (State::Unreachable, "timeout")
        );
        assert_eq!(
            ending(SYN_SENT, error(libc::EHOSTUNREACH)),
            (State::Unreachable, "host unreachable")
        );
        assert_eq!(
            connect_error(error(libc::ENETUNREACH)),
            "network unreachable"
        );
    }
}
