//! What a connection takes, and what there is without any.

use fathom_balance::native::{
    BALANCE_BUCKET_PLACES, balance_bucket, balance_measured, balance_ring_element,
};
use fathom_lab::summary::Row;

/// Of a service's ring, unless configured otherwise.
const RING_PLACES: usize = 65_537;

/// The rows of the summary.
pub(crate) fn rows() -> Vec<Row> {
    let connection = size_of::<balance_bucket>() / BALANCE_BUCKET_PLACES as usize;
    let measured = size_of::<balance_measured>();
    let bytes = connection + measured;
    let ring = RING_PLACES.div_ceil(4) * size_of::<balance_ring_element>();
    vec![Row {
        what: "memory, balancer, a place of the table of connections".to_owned(),
        target: "at most 120 bytes".to_owned(),
        measured: format!(
            "{bytes} bytes; {} where one in four is measured, {connection} where none is; a ring has {ring}",
            connection + measured / 4
        ),
        is_reached: Some(bytes <= 120),
    }]
}
