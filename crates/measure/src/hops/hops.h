/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probes inside live flows: what is remembered of a flow and of a probe, when the next one is due, and what user space is
 * told. Pure, shared with user space; README.md beside this file says why it is so.
 */
#ifndef FATHOM_HOPS_H
#define FATHOM_HOPS_H

#include "header.h"

#define HOPS_TTL_MAX 32 /* no path on the Internet is longer; the deepest router that is asked */
#define HOPS_FLOWS 4096 /* a power of two, as a flow's place is its number modulo this */
#define HOPS_PROBES 16384 /* a power of two; 5 s of 3,000 probes a second */
#define HOPS_BURST 8 /* probes that one packet may trigger: 1.5 us each */
#define HOPS_QUOTE_BYTES                                                                                               \
	288 /* of an answer from its ICMP header on: 128 quoted, as RFC 4884 pads them, and 152 of extensions */
#define HOPS_STALE_NS 10000000000ULL /* an answer that comes so late is not one */

/* What can go wrong in the kernel's part, and what is left out; the texts are what users see. */
#define HOPS_COUNTERS(X)                                                                                               \
	X(PROBES_SENT, "probes sent")                                                                                  \
	X(ANSWERS_MATCHED, "answers matched")                                                                          \
	X(ANSWERS_REPEATED, "answers repeated")                                                                        \
	X(ANSWERS_FOREIGN, "errors that answer no probe: passed on")                                                   \
	X(FLOWS_OPENED, "flows opened")                                                                                \
	X(PACKETS_WATCHED, "packets of flows")                                                                         \
	X(HEADERS_REFUSED, "packets with options, fragments or headers out of reach: not probed")                      \
	X(TTL_LOW, "packets with a TTL of 32 or less: not probed")                                                     \
	X(CLONES_REFUSED, "probes lost on this host: no clone")                                                        \
	X(EDITS_REFUSED, "probes lost on this host: clone not writable")                                               \
	X(PROBES_PLAIN, "probes sent plain: no router known at their TTL, or no packet at hand")                       \
	X(PROBES_DROPPED, "probes not sent: dropped by the probe program")                                             \
	X(PROBES_UNKNOWABLE, "probes not sent: edited where their answers would not be known, or in their TTL")        \
	X(PROBES_OVERRUN, "probes forgotten: too many on the way")                                                     \
	X(BUDGET_SPENT, "probes put off: budget of all probes spent")                                                  \
	X(DESTINATION_BUDGET_SPENT, "probes put off: budget of their destination spent")                               \
	X(EVENTS_LOST, "events lost: ring full")

#define X(name, text) HOPS_COUNT_##name,
enum hops_counter { HOPS_COUNTERS(X) HOPS_COUNTER_COUNT };
#undef X

/* Set before the programs are loaded. */
struct hops_config {
	__u64 cgroup; /* only flows of sockets in it or below; 0: all */
	__u64 timeout; /* ns: what was not answered by then is lost */
	__u32 cgroup_level; /* its depth */
	__u32 probes_per_second; /* in all */
	__u32 probes_per_destination; /* a second */
	__u32 interval; /* us between probes to the same hop, until user space knows better */
	__u32 parent; /* process whose descendants' sockets are probed; 0: any */
	__u8 has_owners; /* only sockets that are marked as owned */
	__u8 keeps_answers; /* answers to probes are passed on to the stack too */
	__u8 first_ceiling; /* TTLs probed until user space knows better, of TCP */
	__u8 first_ceiling_unsafe; /* the same of protocols whose probes must not reach the destination */
	__u8 is_full_size; /* probes are as long as the application's packets, where a router is known */
	__u8 has_edit; /* the user has a fathom_edit (program.h) */
	__u8 has_extract; /* … a fathom_extract */
	__u8 padding[5];
	char process[16]; /* name of the processes whose sockets are probed; empty: any */
};
FATHOM_ASSERT_SIZE(struct hops_config, 2 * 8 + 5 * 4 + 12 + 16);

/* When a TTL is probed; the kernel's part is `due`, which user space sets to 0 when it is in a hurry, and user space's is `interval`. */
struct hops_turn {
	__u64 due; /* ns, CLOCK_MONOTONIC_COARSE */
	__u32 interval; /* us */
	__u32 padding;
};
FATHOM_ASSERT_SIZE(struct hops_turn, 16);

/*
 * A flow, at the place of its number modulo HOPS_FLOWS. Both sides see the same memory; each field has one writer, and
 * `due`, which both may set to ask for an earlier look at the turns.
 */
struct hops_flow {
	__u64 due; /* the earliest turn; ~0 while one CPU is busy sending */
	__u64 seen; /* ns, CLOCK_MONOTONIC_COARSE: its last packet that left */
	__u64 clue_due; /* when user space is to be told of replies again */
	__u64 packets; /* that left, as the stack handed them down: trains count as one */
	__u64 retransmitted; /* of them, TCP without new data where data was */
	__u64 followed_since; /* ns, CLOCK_MONOTONIC: when the packet left whose answer is awaited (destination.h); 0: none is */
	__u64 follow_due; /* before then no other one is followed */
	__u32 number; /* of the flow that has this place */
	__u32 interface; /* that it leaves by */
	__u8 ceiling; /* user space: highest TTL that is probed; 0: none */
	__u8 is_closed; /* FIN or RST was seen */
	__u8 direction; /* 0: it leaves from key.low to key.high */
	__u8 ethernet[14]; /* its header, on devices that have one */
	__u8 known; /* user space: a router answers at this TTL, so that nothing of a lower one reaches the destination */
	__u8 has_heard; /* TCP: data of the peer's has arrived */
	__u8 follows_keep_alive;
	__u32 followed; /* TCP: its first number, of a keep-alive what is acknowledged; echo: identifier << 16 | sequence number */
	__u32 first_ack; /* TCP: of the first packet */
	__u32 padding;
	struct hops_header header; /* of its last packet that left; seq is what comes next */
	struct hops_turn turns[HOPS_TTL_MAX]; /* of TTL 1, 2, … */
};
FATHOM_ASSERT_SIZE(struct hops_flow, 7 * 8 + 2 * 4 + 24 + 2 * 4 + 72 + 32 * 16);

/* A probe, at the place of its number modulo HOPS_PROBES. */
struct hops_probe {
	__u64 sent; /* ns, CLOCK_MONOTONIC; 0: none */
	__u32 number;
	__u32 flow;
	__u32 seq; /* TCP: as sent; echo: identifier << 16 | sequence number */
	__u8 ttl;
	__u8 is_answered;
	__u8 service; /* type of service or traffic class, as sent */
	__u8 padding;
};
FATHOM_ASSERT_SIZE(struct hops_probe, 24);

enum hops_event_type {
	HOPS_EVENT_FLOW, /* struct hops_opening */
	HOPS_EVENT_SENT, /* struct hops_event */
	HOPS_EVENT_ANSWER, /* struct hops_answer */
	HOPS_EVENT_CLUE, /* struct hops_clue */
	HOPS_EVENT_CLOSED, /* struct hops_event */
	HOPS_EVENT_FOLLOWED, /* struct hops_followed */
};

/* Every event starts so. */
struct hops_event {
	__u64 time; /* ns, CLOCK_MONOTONIC */
	__u32 flow; /* its number */
	__u32 probe; /* its number, of SENT and ANSWER */
	__u8 type; /* enum hops_event_type */
	__u8 ttl; /* of the probe */
	__u8 cpu; /* modulo 256 */
	__u8 is_idle; /* SENT: from a stored header, not cloned */
	__u16 length; /* SENT: as handed to the device, from the IP header on */
	__u8 is_edited; /* SENT: by the user's function */
	__u8 has_extracted; /* ANSWER */
};
FATHOM_ASSERT_SIZE(struct hops_event, 24);

struct hops_opening {
	struct hops_event event;
	struct flow_key key;
	__u8 direction; /* 0: from key.low to key.high */
	__u8 padding[7];
};
FATHOM_ASSERT_SIZE(struct hops_opening, 24 + 48 + 8);

struct hops_answer {
	struct hops_event event;
	__u64 sent; /* ns, CLOCK_MONOTONIC: when the probe was handed to the device */
	struct flow_address responder;
	__u32 length; /* of the ICMP message, bytes */
	__u16 identification; /* of the answer's IP header; 0 for IPv6 */
	__u8 ttl; /* of the answer */
	__u8 is_repeated;
	__u64 extracted; /* by the user's function */
	struct hops_header header; /* the probe as it was sent, but for its TTL and marks */
	__u8 bytes[HOPS_QUOTE_BYTES]; /* from the ICMP header on */
};
FATHOM_ASSERT_SIZE(struct hops_answer, 24 + 8 + 16 + 8 + 8 + 72 + 288);

/* What the application's own packets say, at most every 20 ms. */
struct hops_clue {
	struct hops_event event;
	__u64 packets; /* as in struct hops_flow */
	__u64 retransmitted;
	__u32 tsval; /* of the reply that came at event.time (RFC 7323) */
	__u32 tsecr;
	__u8 has_timestamp;
	__u8 reply_ttl;
	__u8 padding[6];
};
FATHOM_ASSERT_SIZE(struct hops_clue, 24 + 2 * 8 + 16);

#define HOPS_CLUE_NS 20000000

/* What became of a packet that must be answered by the destination. */
struct hops_followed {
	struct hops_event event; /* its time is that of the answer */
	__u64 sent; /* ns, CLOCK_MONOTONIC */
	__u8 is_lost;
	__u8 padding[7];
};
FATHOM_ASSERT_SIZE(struct hops_followed, 24 + 8 + 8);

/* A token bucket: `tokens` in thousandths. It holds a fifth of a second's worth, but a burst at least. */
struct hops_budget {
	__u64 filled; /* ns */
	__u64 tokens;
};

static __always_inline int hops_spend(struct hops_budget *budget, __u64 now, __u32 per_second)
{
	__u64 most = per_second / 5 > HOPS_BURST ? per_second / 5 * 1000ULL : HOPS_BURST * 1000ULL;
	__u64 elapsed = now > budget->filled ? now - budget->filled : 0;

	if (elapsed > 1000000000)
		budget->tokens = most;
	else
		budget->tokens += elapsed * per_second / 1000000;
	if (budget->tokens > most)
		budget->tokens = most;
	budget->filled = now;
	if (budget->tokens < 1000)
		return 0;
	budget->tokens -= 1000;
	return 1;
}

/* The turn after one that was taken at `now`: keeps the pace, but does not make up for a pause. */
static __always_inline __u64 hops_next_turn(__u64 due, __u64 interval_ns, __u64 now)
{
	return due + interval_ns > now ? due + interval_ns : now + interval_ns;
}

/* Is `left` behind `right` in the space of TCP's numbers? */
static __always_inline int hops_is_after(__u32 left, __u32 right)
{
	return (__s32)(left - right) > 0;
}

/* TCP: the peer was told that something of it has arrived. */
static __always_inline int hops_has_acknowledged(const struct hops_flow *flow)
{
	return hops_is_after(flow->header.ack, flow->first_ack);
}

/*
 * What a probe of TCP acknowledges: one byte less than what was acknowledged before the packet that is cloned. Where it
 * arrives it is an acknowledgement that was overtaken (RFC 9293, section 3.10.7.4: it can be ignored), and no duplicate one
 * (RFC 5681, section 2: those acknowledge as much as the last), of which three would have the peer retransmit. But what the
 * peer never sent is not acknowledged: that is answered, by a challenge (RFC 5961, section 5.2) or, where the peer still
 * waits for the connection, by a reset. So as long as nothing was acknowledged, a probe says as much as the last packet. To
 * the peer that is no duplicate, as it waits for no acknowledgement.
 */
static __always_inline __u32 hops_quiet_ack(const struct hops_flow *flow)
{
	return flow->header.ack - hops_has_acknowledged(flow);
}

/* Takes note of a packet that arrived in the flow. */
static __always_inline void hops_on_reply(struct hops_flow *flow, const struct hops_header *header)
{
	if (header->protocol == IP_PROTOCOL_TCP && header->payload)
		flow->has_heard = 1;
}

/*
 * Takes note of a packet that leaves. Returns whether it may be cloned: of TCP, only what is at the edge of what was sent,
 * since the probe has its sequence number, and the receiver must take it for an acknowledgement that says nothing new. The
 * first packet may not: a probe that overtakes it could be what completes the handshake, and has no options. Nor may what
 * is sent while the peer waits for its first acknowledgement.
 */
static __always_inline int hops_on_packet(struct hops_flow *flow, const struct hops_header *header)
{
	__u32 end = header->seq + header->payload;
	int is_awaited = flow->has_heard && !hops_has_acknowledged(flow);
	__s32 ahead;

	flow->packets++;
	if (header->protocol != IP_PROTOCOL_TCP)
		return 1;
	if (header->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST | TCP_URG) || !(header->tcp_flags & TCP_ACK))
		return 0;
	if (flow->packets == 1) {
		flow->first_ack = header->ack;
		flow->header = *header;
		flow->header.seq = end;
		flow->header.quiet_ack = header->ack;
		return 0;
	}
	ahead = end - flow->header.seq;
	if (ahead <= 0 && header->payload) {
		flow->retransmitted++;
		return 0;
	}
	if (ahead < 0)
		return 0; /* a keep-alive, or an acknowledgement that was overtaken */
	flow->header.quiet_ack = hops_quiet_ack(flow);
	flow->header.seq = end;
	if (hops_is_after(header->ack, flow->header.ack))
		flow->header.ack = header->ack;
	flow->header.window = header->window;
	return !is_awaited;
}

#endif
