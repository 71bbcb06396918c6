/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel keeps of flows and probes, and what it tells user space of them. */
#ifndef FATHOM_HOPS_STATE_BPF_H
#define FATHOM_HOPS_STATE_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "../../bpf/own_probe.bpf.h"
#include "../../bpf/ring.bpf.h"
#include "../../bpf/selection.h"
#include "destination.h"
#include "probe.h"

#define ETHERNET_BYTES sizeof(struct ethernet_header)
#define NO_TURN (~0ULL)
#define HOPS_NEWEST (4 * HOPS_FLOWS)

const volatile struct hops_config hops_config SEC(".rodata.hops_config") = {};
const volatile struct selection selection SEC(".rodata.selection") = {};

/* Numbers of flows, made with the first packet that may be cloned. Full: the flow that was silent for longest goes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, HOPS_FLOWS);
	__type(key, struct flow_key);
	__type(value, __u32);
} hops_numbers SEC(".maps");

/*
 * The newest flow of each hash of a flow's ends, 128 KB. A lookup in `hops_numbers` takes longer than all else that is done with
 * a packet, and this spares most: what is here and has the packet's ends is its flow; and where the newest has lost its place,
 * all older ones have, so that there is none. Two flows with one hash: the older is looked up.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HOPS_NEWEST);
	__type(key, __u32);
	__type(value, __u32);
} hops_newest SEC(".maps");

/* The flows, 2.6 MB. A new flow takes the place of the one HOPS_FLOWS before it, which ends. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, HOPS_FLOWS);
	__type(key, __u32);
	__type(value, struct hops_flow);
} hops_flows SEC(".maps");

/* The last probes, 400 KB. A new one takes the place of the one HOPS_PROBES before it; if that was waiting, it is counted. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HOPS_PROBES);
	__type(key, __u32);
	__type(value, struct hops_probe);
} hops_probes SEC(".maps");

/* The next numbers. */
struct hops_next {
	__u32 flow;
	__u32 probe;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hops_next);
} hops_next SEC(".maps");

struct hops_locked_budget {
	struct hops_budget budget;
	struct bpf_spin_lock lock;
};

/* Of all probes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hops_locked_budget);
} hops_all_budget SEC(".maps");

/* Of each destination; user space removes those that are whole again. Full until then: counted as a budget that is spent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, HOPS_FLOWS);
	__type(key, struct flow_address);
	__type(value, struct hops_locked_budget);
} hops_budgets SEC(".maps");

/* Sockets that are probed, where processes are selected, have something here; socket_made and open_socket see to it. Accepted ones get it from who listens. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, __u32);
} hops_owned SEC(".maps");

#define HOPS_RING_BYTES (1 << 20)

/* For user space. Full: the event is lost, and counted. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, HOPS_RING_BYTES);
} hops_events SEC(".maps");

static __always_inline void hops_submit(void *event)
{
	bpf_ringbuf_submit(event, ring_wake(&hops_events, HOPS_RING_BYTES));
}

enum hops_stage {
	HOPS_STAGE_NONE,
	HOPS_STAGE_EDIT, /* a clone is on its way through this hook: make the probe of it */
	HOPS_STAGE_PASS, /* the probe is */
};

/*
 * Of each CPU: the probe that is being sent. A clone passes the hook that it was made in, within the call that makes it, and
 * becomes the probe there. That it is a clone, it says itself (own_probe.bpf.h).
 */
struct hops_cpu {
	__u64 counters[HOPS_COUNTER_COUNT];
	__u64 tick; /* in which the clock was read */
	__u64 now; /* ns, CLOCK_MONOTONIC_COARSE */
	struct hops_header header;
	struct flow_key key;
	__u8 bytes[HOPS_BYTES_MAX]; /* the headers of the probe */
	__u8 edited[HOPS_BYTES_MAX]; /* what the user's function made of them */
	__u8 error[ICMP_HEADER_BYTES + HOPS_BYTES_MAX]; /* an ICMP message that may quote a probe */
	__u32 length;
	__u32 number;
	__u32 stage; /* enum hops_stage */
	__u32 flow;
	__u8 ttl;
	__u8 network_bytes; /* in front of the IP header */
	__u8 is_idle;
	__u8 burst; /* probes that may still be sent */
	__u8 service; /* as sent */
	__u8 is_edited;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hops_cpu);
} hops_cpus SEC(".maps");

static __always_inline struct hops_cpu *hops_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&hops_cpus, &zero);
}

static __always_inline struct hops_flow *hops_flow_of(__u32 number)
{
	__u32 place = number & (HOPS_FLOWS - 1);
	struct hops_flow *flow = bpf_map_lookup_elem(&hops_flows, &place);

	return flow && flow->number == number ? flow : 0;
}

static __always_inline struct hops_flow *hops_find(const struct flow_key *key)
{
	__u32 *number = bpf_map_lookup_elem(&hops_numbers, key);

	return number ? hops_flow_of(*number) : 0;
}

/* The place in `hops_newest`: the same for both directions. */
static __always_inline __u32 hops_newest_place(const struct hops_header *header)
{
	__u64 hash = header->source.words[0] ^ header->destination.words[0];

	hash = flow_hash_step(hash, header->source.words[1] ^ header->destination.words[1]);
	hash = flow_hash_step(hash, (header->source_port ^ header->destination_port) << 8 | header->protocol);
	return hash & (HOPS_NEWEST - 1);
}

/* The newest flow of those that a packet may belong to by its hash; if there is none, it belongs to none. */
static __always_inline struct hops_flow *hops_newest_of(const struct hops_header *header)
{
	__u32 place = hops_newest_place(header);
	__u32 *number = bpf_map_lookup_elem(&hops_newest, &place);

	return number && *number ? hops_flow_of(*number) : 0;
}

/* The clock stands still between ticks: it is read once in each, or until it has followed. */
static __always_inline __u64 hops_now(struct hops_cpu *cpu)
{
	__u64 tick = bpf_jiffies64();
	__u64 now;

	if (cpu->tick == tick)
		return cpu->now;
	now = bpf_ktime_get_coarse_ns();
	if (now != cpu->now)
		cpu->tick = tick;
	cpu->now = now;
	return now;
}

static __always_inline void hops_begin(struct hops_event *event, __u8 type, __u32 flow)
{
	event->time = bpf_ktime_get_ns();
	event->flow = flow;
	event->probe = 0;
	event->type = type;
	event->ttl = 0;
	event->cpu = bpf_get_smp_processor_id();
	event->is_idle = 0;
	event->length = 0;
	event->is_edited = 0;
	event->has_extracted = 0;
}

static __always_inline void hops_tell(struct hops_cpu *cpu, __u8 type, __u32 flow)
{
	struct hops_event *event = bpf_ringbuf_reserve(&hops_events, sizeof(*event), 0);

	if (!event) {
		cpu->counters[HOPS_COUNT_EVENTS_LOST]++;
		return;
	}
	hops_begin(event, type, flow);
	if (type == HOPS_EVENT_SENT) {
		event->probe = cpu->number;
		event->ttl = cpu->ttl;
		event->is_idle = cpu->is_idle;
		event->length = cpu->length + cpu->header.tail;
		event->is_edited = cpu->is_edited;
	}
	hops_submit(event);
}

/* Tells what became of the packet that is followed, and follows it no more. */
static __always_inline void hops_tell_followed(struct hops_cpu *cpu, struct hops_flow *flow, __u8 is_lost)
{
	__u64 sent = flow->followed_since;
	struct hops_followed *followed;

	if (!sent || __sync_val_compare_and_swap(&flow->followed_since, sent, 0) != sent)
		return; /* another CPU was faster */
	followed = bpf_ringbuf_reserve(&hops_events, sizeof(*followed), 0);
	if (!followed) {
		cpu->counters[HOPS_COUNT_EVENTS_LOST]++;
		return;
	}
	hops_begin(&followed->event, HOPS_EVENT_FOLLOWED, flow->number);
	followed->sent = sent;
	followed->is_lost = is_lost;
	__builtin_memset(followed->padding, 0, sizeof(followed->padding));
	hops_submit(followed);
}

static __always_inline void hops_close(struct hops_cpu *cpu, struct hops_flow *flow, const struct hops_header *header)
{
	if (header->protocol != IP_PROTOCOL_TCP || !(header->tcp_flags & (TCP_FIN | TCP_RST)) || flow->is_closed)
		return;
	flow->is_closed = 1;
	hops_tell(cpu, HOPS_EVENT_CLOSED, flow->number);
}

/* Reads the packet into `cpu`. */
static __always_inline enum hops_reading hops_read_skb(struct __sk_buff *skb, struct hops_cpu *cpu, __u32 network)
{
	const __u8 *data = (void *)(long)skb->data;
	const __u8 *end = (void *)(long)skb->data_end;

	__builtin_memset(&cpu->header, 0, sizeof(cpu->header));
	if (data + network > end)
		return HOPS_OTHER;
	return hops_read(data + network, end, skb->len - network, wire16(skb->protocol), &cpu->header);
}

#endif
