// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * DNS queries and answers of this host's own sockets, as they leave and arrive, and errors that such sockets learn of. Every
 * packet of every socket passes here: all but those of port 53 are left alone after a look at their headers.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

#include "../../../bpf/packet_network.h"
#include "../../../bpf/selection.h"
#include "dns.h"

#define AF_INET6 10
/* TCP segments hold several messages where a resolver asks for both families at once; with receive offload more. */
#define DNS_MESSAGES_MAX 4
#define ADMIT 1

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	int sk_err;
	__u32 sk_tsflags; /* 16 bits before 6.7 */
};

struct task_struct {
	int tgid;
	struct task_struct *group_leader;
	char comm[DNS_PROCESS_BYTES];
};

#pragma clang attribute pop

/* A message that is being read. */
struct dns_copy {
	__u8 bytes[DNS_BYTES_MAX];
	struct dns_walk walk;
	__u32 length;
};

const volatile struct dns_config dns_config SEC(".rodata.dns_config") = {};
const volatile struct selection selection SEC(".rodata.selection") = {};

/* A query with its name, as it stands in the ring. */
struct dns_query {
	struct dns_event event;
	struct dns_name name;
};

/* The messages, for user space. Full: the message is lost, and counted. 200 ms of 90,000 a second, of which half are queries. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} dns_events SEC(".maps");

/* What went wrong, by name; written by every program. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DNS_COUNTER_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} dns_counters SEC(".maps");

static __always_inline void dns_count(__u32 counter)
{
	__u64 *value = bpf_map_lookup_elem(&dns_counters, &counter);

	if (value)
		++*value;
}

static __always_inline int dns_is_selected(struct __sk_buff *skb, const struct packet_cursor *at)
{
	struct flow_key key = {
		.low = at->source,
		.high = at->destination,
		.low_port = at->source_port,
		.high_port = at->destination_port,
		.protocol = at->protocol,
	};

	if (dns_config.cgroup && bpf_skb_ancestor_cgroup_id(skb, dns_config.cgroup_level) != dns_config.cgroup)
		return 0;
	return selection_admits(&selection, &key);
}

static __always_inline struct dns_event *dns_reserve(void)
{
	struct dns_event *event = bpf_ringbuf_reserve(&dns_events, sizeof(*event), 0);

	if (!event) {
		dns_count(DNS_COUNT_EVENTS_LOST);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time = bpf_ktime_get_ns();
	return event;
}

/* A query with the name of its question, which has `length` bytes without the zero at its end. */
static __always_inline struct dns_event *dns_reserve_named(struct __sk_buff *skb, const struct packet_cursor *at,
							   __u32 length)
{
	struct dns_query *query = bpf_ringbuf_reserve(&dns_events, sizeof(*query), 0);

	if (!query) {
		dns_count(DNS_COUNT_EVENTS_LOST);
		return 0;
	}
	__builtin_memset(query, 0, sizeof(*query));
	query->event.time = bpf_ktime_get_ns();
	query->event.has_name = 1;
	if (length == 0)
		return &query->event;
	/* It is less than DNS_NAME_MAX, as the compiler knows of the caller. Verifiers up to 6.12 at least see it by a mask alone. */
	asm volatile("" : "+r"(length));
	length = ((length - 1) & DNS_NAME_MAX) + 1;
	if (bpf_skb_load_bytes(skb, at->offset + DNS_HEADER_BYTES, query->name.bytes, length))
		query->name.bytes[0] = 0xff;
	return &query->event;
}

/* Not inline: called for each of several messages. `name_length`: bytes of the question's name, without the zero at its end. */
static __noinline int dns_tell(struct __sk_buff *skb, const struct packet_cursor *at, const struct dns_message *message,
			       __u32 name_length)
{
	struct dns_event *event;

	if (dns_config.has_names && !message->is_answer && message->has_question)
		event = dns_reserve_named(skb, at, name_length);
	else
		event = dns_reserve();
	if (!event)
		return 0;
	event->socket = bpf_get_socket_cookie(skb);
	event->message = *message;
	event->protocol = at->protocol;
	if (message->is_answer) {
		event->kind = DNS_ANSWER;
		event->local = at->destination;
		event->remote = at->source;
		event->local_port = at->destination_port;
		event->remote_port = at->source_port;
	} else {
		/* The helpers for this are not for programs of this type before 6.10; and threads have names of their own. */
		struct task_struct *task = (void *)bpf_get_current_task();

		event->kind = DNS_QUERY;
		event->local = at->source;
		event->remote = at->destination;
		event->local_port = at->source_port;
		event->remote_port = at->destination_port;
		event->cgroup = bpf_skb_cgroup_id(skb);
		event->process_id = BPF_CORE_READ(task, tgid);
		BPF_CORE_READ_INTO(&event->process, task, group_leader, comm);
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Reads `length` bytes at `offset`, which may lie in pages beyond what programs see. Returns how many it is. */
static __always_inline __u32 dns_load(struct __sk_buff *skb, __u32 offset, __u32 length, __u8 *bytes)
{
	if (length > DNS_BYTES_MAX)
		length = DNS_BYTES_MAX;
	/* The compiler would drop the check that the verifier wants: it knows the callers. */
	asm volatile("" : "+r"(length));
	if (length < DNS_HEADER_BYTES || length > DNS_BYTES_MAX)
		return 0;
	return bpf_skb_load_bytes(skb, offset, bytes, length) ? 0 : length;
}

static long dns_on_byte(__u32 index, void *context)
{
	struct dns_copy *copy = context;

	return dns_step(copy->bytes, copy->length, index, &copy->walk);
}

/* As dns_read. A plain loop over the name is more than the verifier of 6.1 walks (1,000,000 instructions, "too large"). */
static __always_inline int dns_parse(struct dns_copy *copy, struct dns_message *message)
{
	enum dns_reading reading = dns_read_header(copy->bytes, copy->length, message);

	if (reading != DNS_HAS_QUESTION)
		return reading == DNS_IS_BARE;
	bpf_loop(DNS_NAME_MAX, dns_on_byte, copy, 0);
	return dns_read_end(copy->bytes, copy->length, &copy->walk, message);
}

/* Not inline: the bytes have a stack frame of their own. */
static __noinline int dns_on_message(struct __sk_buff *skb, const struct packet_cursor *at, __u32 length, int is_answer)
{
	struct dns_copy copy = { .walk = DNS_WALK_START };
	struct dns_message message = {};

	/*
	 * Zero, but the verifier must not know. That of 6.1 takes a loop's first round for all of them: it would see that no round
	 * starts within a label, and remove what is for those (no name is read then).
	 */
	copy.walk.label = skb->len >> 31;
	copy.length = dns_load(skb, at->offset, length, copy.bytes);
	if (!copy.length || !dns_parse(&copy, &message))
		return 0;
	/* What leaves as an answer, or arrives as a query, is of a server on this host. */
	if (message.is_answer == is_answer)
		dns_tell(skb, at, &message, copy.walk.end - DNS_HEADER_BYTES);
	return 1;
}

/*
 * Messages in TCP have their length before them (RFC 1035, section 4.2.2). Some write it by itself: then the message stands
 * at the start of the next segment.
 */
static __always_inline void dns_on_segment(struct __sk_buff *skb, struct packet_cursor *at, int is_answer)
{
	__u32 start = at->offset;
	int i;

	for (i = 0; i < DNS_MESSAGES_MAX; i++) {
		__u32 length, left = skb->len - at->offset - 2;
		__u16 prefix;

		if (skb->len < at->offset + 2 + DNS_HEADER_BYTES ||
		    bpf_skb_load_bytes(skb, at->offset, &prefix, sizeof(prefix)))
			break;
		length = wire16(prefix);
		at->offset += 2;
		if (!dns_on_message(skb, at, length < left ? length : left, is_answer))
			break;
		at->offset += length;
		if (length >= left)
			return;
	}
	if (i == DNS_MESSAGES_MAX) {
		dns_count(DNS_COUNT_BEYOND);
	} else if (!i && skb->len > start) {
		at->offset = start;
		dns_on_message(skb, at, skb->len - start, is_answer);
	}
}

/* From an IP header to behind that of TCP or UDP, if it is of port 53 on the other side. */
static __always_inline int dns_find(struct __sk_buff *skb, struct packet_cursor *at, int is_answer)
{
	struct packet_bytes bytes = { .data = (void *)(long)skb->data,
				      .end = (void *)(long)skb->data_end,
				      .length = skb->len };
	struct packet packet = {};
	const struct wire_field16 *ports;
	const struct tcp_header *tcp;
	enum packet_verdict verdict;

	if (skb->protocol == bpf_htons(ETHER_TYPE_IPV4))
		verdict = packet_read_ipv4(&bytes, &packet, at);
	else
		verdict = packet_read_ipv6(&bytes, &packet, at);
	if (verdict != PACKET_MEASURABLE || (at->protocol != IP_PROTOCOL_UDP && at->protocol != IP_PROTOCOL_TCP))
		return 0;
	ports = packet_at(&bytes, at->offset, 2 * sizeof(*ports));
	if (!ports || ports[is_answer ? 0 : 1].value != bpf_htons(DNS_PORT))
		return 0;
	at->source_port = wire16(ports[0].value);
	at->destination_port = wire16(ports[1].value);
	if (at->protocol == IP_PROTOCOL_UDP) {
		at->offset = packet_skip(at->offset, sizeof(struct udp_header));
		return 1;
	}
	tcp = packet_at(&bytes, at->offset, sizeof(*tcp));
	if (!tcp)
		return 0;
	at->offset = packet_skip(at->offset, (tcp->offset >> 4) * 4);
	return 1;
}

static __always_inline int dns_on_packet(struct __sk_buff *skb, int is_answer)
{
	struct packet_cursor at = {};

	if (!dns_find(skb, &at, is_answer) || skb->len <= at.offset || !dns_is_selected(skb, &at))
		return ADMIT;
	if (at.protocol == IP_PROTOCOL_TCP)
		dns_on_segment(skb, &at, is_answer);
	else if (!dns_on_message(skb, &at, skb->len - at.offset, is_answer))
		dns_count(DNS_COUNT_UNREADABLE);
	return ADMIT;
}

SEC("cgroup_skb/egress")
int dns_egress(struct __sk_buff *skb)
{
	return dns_on_packet(skb, 0);
}

SEC("cgroup_skb/ingress")
int dns_ingress(struct __sk_buff *skb)
{
	return dns_on_packet(skb, 1);
}

static __always_inline struct flow_address dns_address(const struct in6_addr *address)
{
	return (struct flow_address){ .words = {
					      (__u64)address->in6_u.u6_addr32[1] << 32 | address->in6_u.u6_addr32[0],
					      (__u64)address->in6_u.u6_addr32[3] << 32 | address->in6_u.u6_addr32[2],
				      } };
}

/*
 * Only of sockets that are connected to a resolver: others do not know whom the error is from. The application is woken before
 * this, and may have taken the error: then it is 0 here. It is 0 for a time stamp too, which is none.
 */
SEC("tp_btf/inet_sk_error_report")
int BPF_PROG(dns_error, struct sock *sk)
{
	struct dns_event *event;

	int error = sk->sk_err;

	if (sk->__sk_common.skc_dport != bpf_htons(DNS_PORT))
		return 0;
	if (!error && BPF_CORE_READ_BITFIELD(sk, sk_tsflags))
		return 0;
	event = dns_reserve();
	if (!event)
		return 0;
	event->kind = DNS_ERROR;
	event->socket = bpf_get_socket_cookie(sk);
	event->protocol = sk->sk_protocol;
	event->error = error;
	event->local_port = sk->__sk_common.skc_num;
	event->remote_port = DNS_PORT;
	if (sk->__sk_common.skc_family == AF_INET6) {
		event->local = dns_address(&sk->__sk_common.skc_v6_rcv_saddr);
		event->remote = dns_address(&sk->__sk_common.skc_v6_daddr);
	} else {
		event->local = flow_address_v4(sk->__sk_common.skc_rcv_saddr);
		event->remote = flow_address_v4(sk->__sk_common.skc_daddr);
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}
