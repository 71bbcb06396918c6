//! Events as the kernel tells of them, for tests.

use crate::flow::flow_address_of;
use crate::profile::native::{self, dns_event, dns_message};

/// A query for an A record with the number 7 from the socket 1 to 192.0.2.53.
pub(super) fn query(time: u64) -> dns_event {
    dns_event {
        time,
        socket: 1,
        local: flow_address_of([10, 0, 0, 1].into()),
        remote: flow_address_of([192, 0, 2, 53].into()),
        local_port: 4000,
        remote_port: 53,
        process_id: 99,
        message: dns_message {
            question: 0xabcd,
            id: 7,
            query_type: 1,
            has_question: 1,
            ..dns_message::default()
        },
        protocol: 17,
        kind: native::DNS_QUERY as u8,
        ..dns_event::default()
    }
}

/// The answer to that query.
pub(super) fn answer(time: u64, response_code: u8) -> dns_event {
    let query = query(time);
    dns_event {
        kind: native::DNS_ANSWER as u8,
        message: dns_message {
            is_answer: 1,
            response_code,
            ..query.message
        },
        ..query
    }
}

/// An error of its socket, by its number; 0: it is not known which.
pub(super) fn error(time: u64, error: i32) -> dns_event {
    dns_event {
        kind: native::DNS_ERROR as u8,
        error: error.cast_unsigned(),
        message: dns_message::default(),
        ..query(time)
    }
}

/// The same query from another socket.
pub(super) fn query_of(socket: u64, time: u64) -> dns_event {
    dns_event {
        socket,
        ..query(time)
    }
}
