//! The C algorithms, and the structs they share with the kernel, as Rust sees them.

#[expect(
    non_camel_case_types,
    unreachable_pub,
    unsafe_code,
    clippy::pedantic,
    clippy::all,
    reason = "generated from native.h, where everything is documented"
)]
#[allow(dead_code, reason = "the headers declare more than user space needs")]
#[rustfmt::skip]
mod bindings;

pub(crate) use bindings::{
    PACKET_COPY, PACKET_LINK_COOKED, PACKET_LINK_COOKED_V2, PACKET_LINK_ETHERNET, PACKET_LINK_IP,
    PACKET_LINK_NULL, PACKET_LINK_PPP, PACKET_LINK_PPP_DIRECTED, PACKET_LINK_PPPOE,
    PACKET_LINK_UNKNOWN, PACKET_MEASURABLE, PACKET_VERDICT_COUNT, RESPONSE_BINS,
    RESPONSE_COUNT_EPOCHS, RESPONSE_COUNT_FILTERED, RESPONSE_COUNT_FLOWS_DELETED,
    RESPONSE_COUNT_FLOWS_OPENED, RESPONSE_COUNT_NOT_SAMPLED, RESPONSE_COUNT_UNDIRECTED,
    RESPONSE_COUNTER_COUNT, RESPONSE_COUNTS_FLIGHT, RESPONSE_DIRECTION_NONE,
    RESPONSE_ECHO_DRIFT_SHIFT, RESPONSE_ECHO_SHIFT, RESPONSE_ESTIMATOR_COUNT, RESPONSE_HAS_FLIGHT,
    RESPONSE_HAS_SHORT, RESPONSE_HOLDS_BACK, RESPONSE_IS_SEALED, RESPONSE_IS_USED,
    RESPONSE_NO_LEAST, RESPONSE_QUIC_REQUEST_FROM, RESPONSE_STARTS_OVER, RESPONSE_TICK_SHIFT,
    RTT_ACTION_CLOSED, RTT_ACTION_FORGET, RTT_ACTION_OPEN, RTT_COUNT_FILTERED,
    RTT_COUNT_FLOWS_DELETED, RTT_COUNT_FLOWS_OPENED, RTT_COUNT_PENDING_EXPIRED,
    RTT_COUNT_REQUESTS_DISPLACED, RTT_COUNT_SAMPLES, RTT_COUNTER_COUNT, RTT_EVENT_CLOSE,
    RTT_EVENT_OPEN, RTT_FLOW_IS_CLOSED, RTT_HOOK_COUNT, RTT_METHOD_COUNT, RTT_REASON_COUNT,
    RTT_REASON_END, RTT_REASON_EVICTED, RTT_REASON_REPLACED, RTT_REASON_TIMEOUT,
    RTT_SAMPLE_IS_LOOP, RTT_SAMPLE_RETRANSMITTED, fathom_reading, flow_address, flow_key, packet,
    response_batches, response_bins, response_config, response_counter, response_echoes,
    response_epoch, response_flow, response_gaps, response_handshake, response_mode,
    response_modes, response_sizes, response_tcp, response_triggers, rtt_bucket, rtt_config,
    rtt_event, rtt_flow, rtt_half, rtt_output, rtt_pending, rtt_traffic, selection,
    selection_network,
};

#[cfg(test)]
pub(crate) use bindings::response_state;
#[cfg(feature = "live")]
pub(crate) use bindings::{
    DNS_ANSWER, DNS_COUNT_EVENTS_LOST, DNS_COUNTER_COUNT, DNS_NAME_BYTES, DNS_QUERY,
    LOOKUP_COUNTER_COUNT, PROFILE_ACCEPTED, PROFILE_ATTEMPT, PROFILE_CLOSED, PROFILE_CONNECT,
    PROFILE_COUNTER_COUNT, PROFILE_ESTABLISHED, PROFILE_FAILED, PROFILE_LOSSY, PROFILE_META_ADDED,
    PROFILE_META_CLOSED, PROFILE_META_CONNECT, PROFILE_META_ESTABLISHED, PROFILE_META_LOSSY,
    PROFILE_META_RECOVERED, PROFILE_META_REMOVED, PROFILE_META_SEEN, PROFILE_RECOVERED,
    PROFILE_SEEN, PROFILE_SLOTS, RTT_EVENT_SAMPLE, dns_config, dns_event, lookup_config,
    lookup_event, profile_attempt, profile_config, profile_disorder, profile_meta,
    profile_moment_of, profile_round_trips, profile_slot, profile_snapshot, rtt_flow_event,
};
#[cfg(all(test, feature = "live"))]
pub(crate) use bindings::{
    DNS_BYTES_MAX, DNS_ERROR, DNS_PROCESS_BYTES, HOPS_BURST, HOPS_BYTES_MAX, HOPS_READ,
    dns_message, fathom_hops_build, fathom_hops_read,
};
#[cfg(feature = "live")]
pub(crate) use bindings::{
    HOPS_COUNT_PACKETS_WATCHED, HOPS_COUNTER_COUNT, HOPS_EVENT_ANSWER, HOPS_EVENT_CLOSED,
    HOPS_EVENT_CLUE, HOPS_EVENT_FLOW, HOPS_EVENT_SENT, HOPS_FLOWS, HOPS_TTL_MAX, hops_answer,
    hops_budget, hops_clue, hops_config, hops_event, hops_flow, hops_header, hops_opening,
};

use std::ffi::{CStr, c_char};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

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
type Parser<C> = unsafe extern "C" fn(
    *const u8,
    u32,
    u32,
    u32,
    u32,
    *const selection,
    *const C,
    *mut fathom_reading,
);

/// Reads a frame for the measurement of round trips.
pub(crate) fn read(
    frame: &Frame<'_>,
    selection: Option<&selection>,
    config: &rtt_config,
) -> fathom_reading {
    read_by(bindings::fathom_read, frame, selection, config)
}

/// Reads a frame for the measurement of responses.
pub(crate) fn read_request(
    frame: &Frame<'_>,
    selection: Option<&selection>,
    config: &response_config,
) -> fathom_reading {
    read_by(bindings::fathom_response_read, frame, selection, config)
}

#[expect(unsafe_code, reason = "calls the shared C parser")]
#[inline]
fn read_by<C>(
    parser: Parser<C>,
    frame: &Frame<'_>,
    selection: Option<&selection>,
    config: &C,
) -> fathom_reading {
    let mut reading = fathom_reading::default();
    // SAFETY: the parsers read only within the given length, the other pointers are valid or null, and nothing is kept.
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

impl response_flow {
    /// Of the packets that carry requests.
    pub(crate) fn direction(&self) -> u8 {
        u8::from(u32::from(self.flags) & bindings::RESPONSE_TO_LOW != 0)
    }

    /// What a flow of segments remembers; of others it means nothing.
    #[expect(unsafe_code, reason = "reads a union of plain numbers")]
    pub(crate) fn tcp(&self) -> response_tcp {
        // SAFETY: all members are plain numbers, and any bytes are valid ones.
        unsafe { self.state.tcp }
    }

    /// What a flow of datagrams remembers; of segments it means nothing.
    #[expect(unsafe_code, reason = "reads a union of plain numbers")]
    pub(crate) fn sizes(&self) -> response_sizes {
        // SAFETY: as above.
        unsafe { self.state.sizes }
    }
}

/// A flow of requests with what the estimator keeps of it.
#[derive(Clone, Default)]
pub(crate) struct Requests {
    pub(crate) flow: response_flow,
    pub(crate) gaps: response_gaps,
}

/// Requests as the C side works on them: with their handshakes, and the configuration of all.
#[expect(unsafe_code, reason = "calls the shared C algorithm")]
impl Requests {
    /// As they lie in a table of the kernel's: the flow, and behind it what the estimator keeps. `None` where that is too long.
    #[cfg(feature = "live")]
    pub(crate) fn of_bytes(flow: response_flow, gaps: &[u8]) -> Option<Self> {
        let mut requests = Self {
            flow,
            gaps: response_gaps::default(),
        };
        if gaps.len() > size_of::<response_gaps>() {
            return None;
        }
        // SAFETY: both are valid for so many bytes, and any bytes are valid numbers.
        unsafe {
            std::ptr::from_mut(&mut requests.gaps)
                .cast::<u8>()
                .copy_from_nonoverlapping(gaps.as_ptr(), gaps.len());
        }
        Some(requests)
    }

    /// Takes a packet in. Returns the epoch that ended before it, if one did, and what the packet is counted as if it is no part of the flow. There
    /// are as many places as `config` says.
    pub(crate) fn on_packet(
        &mut self,
        places: &mut [response_handshake],
        reading: &fathom_reading,
        now: u64,
        config: &response_config,
    ) -> (Option<response_epoch>, Option<response_counter>) {
        assert!(places.len() > config.handshake_mask as usize);
        let mut ended = response_epoch::default();
        let mut left_out = 0;
        // SAFETY: all pointers are valid and distinct, the index of a place is at most the mask, and nothing is kept.
        let has_ended = unsafe {
            bindings::fathom_response_on_packet(
                &raw mut self.flow,
                &raw mut self.gaps,
                places.as_mut_ptr(),
                reading,
                now,
                config,
                &raw mut ended,
                &raw mut left_out,
            )
        };
        let left_out = (left_out < RESPONSE_COUNTER_COUNT).then_some(left_out);
        ((has_ended != 0).then_some(ended), left_out)
    }

    /// Takes a packet in that has no flow. Returns the flow if it begins one.
    pub(crate) fn begin(
        places: &mut [response_handshake],
        reading: &fathom_reading,
        now: u64,
        config: &response_config,
    ) -> Option<Self> {
        assert!(places.len() > config.handshake_mask as usize);
        let mut begun = Self::default();
        let places = places.as_mut_ptr();
        // SAFETY: as above.
        let has_begun = unsafe {
            bindings::fathom_response_without_flow(
                &raw mut begun.flow,
                places,
                reading,
                now,
                config,
            )
        };
        (has_begun != 0).then_some(begun)
    }

    /// Ends the epoch if it is over at `now`, or `at_once`, and it had a packet.
    pub(crate) fn end_epoch(
        &mut self,
        key: &flow_key,
        now: u64,
        at_once: bool,
        config: &response_config,
    ) -> Option<response_epoch> {
        let is_used = u32::from(self.flow.flags) & RESPONSE_IS_USED != 0;
        let mut ended = response_epoch::default();
        // SAFETY: all pointers are valid and distinct, and nothing is kept.
        unsafe {
            if !is_used
                || !(at_once
                    || bindings::fathom_response_is_over(&raw const self.flow, now, config) != 0)
            {
                return None;
            }
            bindings::fathom_response_end_epoch(
                &raw mut self.flow,
                &raw mut self.gaps,
                key,
                now,
                config,
                &raw mut ended,
            );
        }
        Some(ended)
    }
}

/// All members of the union are plain numbers, and any bytes are valid ones.
#[expect(unsafe_code, reason = "reads a union of plain numbers")]
impl response_gaps {
    /// What `split` keeps, and `acknowledged` of all but TCP.
    pub(crate) fn bins(&self) -> response_bins {
        // SAFETY: see above.
        unsafe { self.bins }
    }

    /// What `acknowledged` keeps of TCP.
    pub(crate) fn triggers(&self) -> response_triggers {
        // SAFETY: see above.
        unsafe { self.triggers }
    }

    /// What `modes` keeps.
    pub(crate) fn modes(&self) -> response_modes {
        // SAFETY: see above.
        unsafe { self.modes }
    }

    /// What `fixed` keeps.
    pub(crate) fn batches(&self) -> response_batches {
        // SAFETY: see above.
        unsafe { self.batches }
    }
}

/// Is this flow selected?
#[cfg(test)]
#[expect(unsafe_code, reason = "calls shared C without side effects")]
pub(crate) fn admits(selection: &selection, key: &flow_key) -> bool {
    // SAFETY: both are valid for reads, and nothing is kept.
    unsafe { bindings::fathom_selection_admits(selection, key) != 0 }
}

/// What a DNS message says, if it is one.
#[cfg(all(test, feature = "live"))]
#[expect(unsafe_code, reason = "calls the shared C parser")]
pub(crate) fn read_dns(bytes: &[u8]) -> Option<dns_message> {
    let mut message = dns_message::default();
    // SAFETY: the reader reads only within the given length, and nothing is kept.
    let is_one =
        unsafe { bindings::fathom_dns_read(bytes.as_ptr(), bytes.len() as u32, &raw mut message) };
    (is_one != 0).then_some(message)
}

/// For tables of our own.
#[cfg(test)]
#[expect(unsafe_code, reason = "calls shared C without side effects")]
pub(crate) fn hash(key: &flow_key, seed: u64) -> u64 {
    // SAFETY: the key is valid for reads, and nothing is kept.
    unsafe { bindings::fathom_flow_hash(key, seed) }
}

/// A flow's state with the places behind it.
pub(crate) struct FlowState<'a> {
    pub(crate) flow: &'a mut rtt_flow,
    pub(crate) places: &'a mut [rtt_pending],
}

/// Places of 16 bytes behind a flow, for so many slots of a direction: these, and marks if bytes are counted.
pub(crate) const fn places(slots: usize, has_bytes: bool) -> usize {
    if has_bytes { 2 + 4 * slots } else { 2 * slots }
}

/// Slots of a direction in so many places.
pub(crate) const fn slots_in(places: usize, has_bytes: bool) -> usize {
    if has_bytes { places / 4 } else { places / 2 }
}

/// Takes a packet into the algorithm; `output` tells what comes of it. There are as many buckets as `config` says.
#[expect(unsafe_code, reason = "calls the shared C algorithm")]
pub(crate) fn on_packet(
    state: Option<FlowState<'_>>,
    buckets: &mut [rtt_bucket],
    packet: &packet,
    now: u64,
    config: &rtt_config,
    output: &mut rtt_output,
) {
    assert!(buckets.len() > config.bucket_mask as usize);
    let mut state = state;
    let places = state.as_ref().map_or(0, |state| state.places.len());
    let size = slots_in(places, config.has_bytes != 0) as u32;
    let flow = state
        .as_mut()
        .map_or(std::ptr::null_mut(), |state| std::ptr::from_mut(state.flow));
    let slots = state.map_or(std::ptr::null_mut(), |state| state.places.as_mut_ptr());
    let buckets = buckets.as_mut_ptr();
    // SAFETY: pointers are null or valid and distinct, there are places for `size` slots, the index of a bucket is at most the mask, and
    // nothing is kept.
    unsafe {
        bindings::fathom_rtt_on_packet(flow, slots, size, buckets, packet, now, config, output);
    }
}

/// Starts a zeroed flow with its first packet, as `output.actions` asked for.
#[expect(unsafe_code, reason = "calls the shared C algorithm")]
pub(crate) fn open(
    state: &mut FlowState<'_>,
    packet: &packet,
    now: u64,
    config: &rtt_config,
    output: &mut rtt_output,
) {
    let size = slots_in(state.places.len(), config.has_bytes != 0) as u32;
    // SAFETY: all pointers are valid and distinct, there are places for `size` slots, and nothing is kept.
    unsafe {
        bindings::fathom_rtt_open(
            state.flow,
            state.places.as_mut_ptr(),
            size,
            packet,
            now,
            config,
            output,
        );
    }
}

/// What is pending, in rings of twice the size.
#[expect(unsafe_code, reason = "calls shared C")]
pub(crate) fn grown(
    flow: &rtt_flow,
    from: &[rtt_pending],
    config: &rtt_config,
) -> Box<[rtt_pending]> {
    let has_bytes = config.has_bytes != 0;
    let size = slots_in(from.len(), has_bytes);
    let mut larger = vec![rtt_pending::default(); places(size * 2, has_bytes)].into_boxed_slice();
    // SAFETY: `from` has places for `size` slots, `larger` for twice that.
    unsafe {
        bindings::fathom_rtt_grow(
            flow,
            from.as_ptr(),
            size as u32,
            config,
            larger.as_mut_ptr(),
        );
    }
    larger
}

/// An address as outputs show it: IPv4 in its own form.
pub(crate) fn address(address: &flow_address) -> IpAddr {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&address.words[0].to_ne_bytes());
    octets[8..].copy_from_slice(&address.words[1].to_ne_bytes());
    Ipv6Addr::from(octets).to_canonical()
}

/// The reverse of [`address`].
pub(crate) fn flow_address_of(address: IpAddr) -> flow_address {
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    flow_address {
        words: words_of(octets),
    }
}

/// 16 bytes as they lie in memory, in two words.
pub(crate) fn words_of(octets: [u8; 16]) -> [u64; 2] {
    let (halves, _) = octets.as_chunks::<8>();
    [u64::from_ne_bytes(halves[0]), u64::from_ne_bytes(halves[1])]
}

macro_rules! names {
    ($($(#[$doc:meta])* $function:ident: $table:ident[$count:ident];)+) => {$(
        $(#[$doc])*
        pub(crate) fn $function() -> &'static [&'static str; $count as usize] {
            static NAMES: LazyLock<[&'static str; $count as usize]> = LazyLock::new(|| {
                #[expect(unsafe_code, reason = "reads a constant table of the shared C")]
                // SAFETY: the table is constant, and each entry a string literal.
                unsafe { bindings::$table.map(|text| literal(text)) }
            });
            &NAMES
        }
    )+};
}

names! {
    /// Why packets are not measured, by verdict.
    verdict_names: fathom_packet_verdict_names[PACKET_VERDICT_COUNT];
    /// Methods of `rtt`.
    method_names: fathom_rtt_method_names[RTT_METHOD_COUNT];
    /// Why flows open and close.
    reason_names: fathom_rtt_reason_names[RTT_REASON_COUNT];
    /// What is counted.
    counter_names: fathom_rtt_counter_names[RTT_COUNTER_COUNT];
    /// Where packets are seen.
    hook_names: fathom_rtt_hook_names[RTT_HOOK_COUNT];
    /// Estimators of `response`.
    estimator_names: fathom_response_estimator_names[RESPONSE_ESTIMATOR_COUNT];
    /// What is counted when responses are measured.
    response_counter_names: fathom_response_counter_names[RESPONSE_COUNTER_COUNT];
}

#[cfg(feature = "live")]
names! {
    /// What is counted when hops are measured.
    hops_counter_names: fathom_hops_counter_names[HOPS_COUNTER_COUNT];
    /// What is counted when profiles are taken.
    profile_counter_names: fathom_profile_counter_names[PROFILE_COUNTER_COUNT];
    /// What is counted of DNS messages.
    dns_counter_names: fathom_dns_counter_names[DNS_COUNTER_COUNT];
    /// What is counted of lookups.
    lookup_counter_names: fathom_lookup_counter_names[LOOKUP_COUNTER_COUNT];
}

#[expect(unsafe_code, reason = "reads a string literal of the shared C")]
unsafe fn literal(text: *const c_char) -> &'static str {
    // SAFETY: the caller passes a string literal, which lives for ever and ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default()
}
