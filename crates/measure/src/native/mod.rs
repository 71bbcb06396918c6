//! The C that measurements share, and its structs, as Rust sees them.

#[rustfmt::skip]
pub(crate) mod bindings;

#[cfg(feature = "live")]
pub(crate) use bindings::{
    FLOW_BUCKET_SLOTS, FLOW_WORD_FLAGS, FLOW_WORD_IS_BUSY, FLOW_WORD_MEASUREMENTS, flow_bucket,
    flow_table,
};
pub(crate) use bindings::{
    PACKET_COPY, PACKET_LINK_COOKED, PACKET_LINK_COOKED_V2, PACKET_LINK_ETHERNET, PACKET_LINK_IP,
    PACKET_LINK_NULL, PACKET_LINK_PPP, PACKET_LINK_PPP_DIRECTED, PACKET_LINK_PPPOE,
    PACKET_LINK_UNKNOWN, PACKET_MEASURABLE, PACKET_VERDICT_COUNT, fathom_reading, flow_address,
    flow_key, packet, selection, selection_network,
};

use std::ffi::{CStr, c_char};

/// A frame of a capture, or of a test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// `PACKET_LINK_*`.
    pub(crate) link: u32,
    pub(crate) interface: u32,
    pub(crate) length: u32,
    pub(crate) data: &'a [u8],
}

/// A parser of the C side, for one measurement with its configuration `C`.
pub(crate) type Parser<C> = unsafe extern "C" fn(
    *const u8,
    u32,
    u32,
    u32,
    u32,
    *const selection,
    *const C,
    *mut fathom_reading,
);

/// Reads a frame by a parser of the C side.
#[expect(unsafe_code, reason = "calls the shared C parser")]
#[inline]
pub(crate) fn read_by<C>(
    parser: Parser<C>,
    frame: &Frame<'_>,
    selection: Option<&selection>,
    config: &C,
) -> fathom_reading {
    let mut reading = fathom_reading::default();
    // SAFETY: the parsers read only within the given length, the other pointers are valid or null,
    // and nothing is kept.
    unsafe {
        parser(
            frame.data.as_ptr(),
            frame.data.len() as u32,
            frame.length,
            frame.link,
            frame.interface,
            selection.map_or(std::ptr::null(), std::ptr::from_ref),
            config,
            &raw mut reading,
        );
    }
    reading
}

/// Is this flow selected?
#[cfg(test)]
#[expect(unsafe_code, reason = "calls shared C without side effects")]
pub(crate) fn admits(selection: &selection, key: &flow_key) -> bool {
    // SAFETY: both are valid for reads, and nothing is kept.
    unsafe { bindings::fathom_selection_admits(selection, key) != 0 }
}

/// For tables of our own.
#[cfg(test)]
#[expect(unsafe_code, reason = "calls shared C without side effects")]
pub(crate) fn hash(key: &flow_key, seed: u64) -> u64 {
    // SAFETY: the key is valid for reads, and nothing is kept.
    unsafe { bindings::fathom_flow_hash(key, seed) }
}

/// Functions that give the names in the `bindings` of the calling module.
macro_rules! names {
    ($($(#[$doc:meta])* $function:ident: $table:ident[$count:ident];)+) => {$(
        $(#[$doc])*
        pub(crate) fn $function() -> &'static [&'static str; bindings::$count as usize] {
            use std::sync::LazyLock;

            static NAMES: LazyLock<[&'static str; bindings::$count as usize]> = LazyLock::new(|| {
                #[expect(unsafe_code, reason = "reads a constant table of the shared C")]
                // SAFETY: the table is constant, and each entry a string literal.
                unsafe { bindings::$table.map(|text| $crate::native::literal(text)) }
            });
            &NAMES
        }
    )+};
}
pub(crate) use names;

names! {
    /// Why packets are not measured, by verdict.
    verdict_names: fathom_packet_verdict_names[PACKET_VERDICT_COUNT];
    /// Where packets are seen.
    hook_names: fathom_packet_hook_names[PACKET_HOOK_COUNT];
}

/// A name of the C side.
#[expect(unsafe_code, reason = "reads a string literal of the shared C")]
pub(crate) unsafe fn literal(text: *const c_char) -> &'static str {
    // SAFETY: the caller passes a string literal, which lives for ever and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default()
}
