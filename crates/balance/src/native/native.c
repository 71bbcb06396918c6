// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

#include "../bpf/encapsulate.h"
#include "../bpf/icmp.h"
#include "../bpf/quic.h"
#include "../bpf/table.h"

__u32 fathom_balance_ring_entry(__u64 word, __u32 ring_size)
{
	return balance_ring_entry(word, ring_size);
}

/* What the functions of table.h work on, within a call from user space. */
static __thread struct {
	struct balance_bucket *buckets;
	const struct balance_config *config;
} table;

static struct balance_bucket *balance_bucket_at(__u32 index)
{
	return &table.buckets[index];
}

static const struct balance_config *balance_settings(void)
{
	return table.config;
}

/* Nothing is measured here. */
static void balance_put_measured(__u32 to, __u32 from)
{
	(void)to;
	(void)from;
}

static struct balance_connection *connection_at(struct balance_bucket *buckets, __u32 slot)
{
	return &buckets[slot / BALANCE_BUCKET_SLOTS].connections[slot % BALANCE_BUCKET_SLOTS];
}

__u32 fathom_balance_look_up(struct balance_bucket *buckets, __u64 hash, const struct balance_config *config)
{
	__u32 slot;

	table.buckets = buckets;
	table.config = config;
	return balance_look_up(hash, &slot) ? slot : BALANCE_NO_SLOT;
}

__u32 fathom_balance_keep(struct balance_bucket *buckets, __u64 hash, __u16 server, __u32 now,
			  const struct balance_config *config, struct balance_cpu *cpu)
{
	struct balance_packet packet = { .hash = hash, .server = server, .protocol = IP_PROTOCOL_TCP };

	table.buckets = buckets;
	table.config = config;
	return balance_keep(&packet, cpu, now) - 1;
}

void fathom_balance_touch(struct balance_bucket *buckets, __u32 slot, __u32 now, int is_over)
{
	balance_touch(connection_at(buckets, slot), now, is_over ? BALANCE_IS_CLOSING : 0);
}

int fathom_balance_begins_anew(const struct balance_bucket *buckets, __u32 slot, int is_syn, __u32 now,
			       const struct balance_config *config)
{
	return balance_begins_anew(connection_at((struct balance_bucket *)buckets, slot), is_syn, now, config);
}

int fathom_balance_wrap(const __u8 *frame, __u32 length, const struct balance_server *server, __u8 *outer,
			__u32 *network)
{
	const struct balance_config config = { .quic_id_lengths = { 1, 2, 3, 4, 5, 6, 7, 8 } };
	const struct packet_bytes bytes = { .data = frame, .end = frame + length, .length = length };
	struct balance_packet packet = {}, quoted = {};
	struct balance_quic_id id = {};

	if (balance_read(&bytes, &packet) != BALANCE_COUNT_FORWARDED)
		return -1;
	/* These are not read: they go where their first went. */
	if (packet.flags & BALANCE_PACKET_IS_LATER)
		return -1;
	if (packet.protocol == IP_PROTOCOL_UDP)
		balance_read_quic_id(&bytes, &packet, &config, &id);
	if ((packet.protocol == IP_PROTOCOL_ICMP || packet.protocol == IP_PROTOCOL_ICMPV6) &&
	    (!balance_is_error(&packet) || !balance_read_quoted(&bytes, &packet, &quoted)))
		return -1;
	packet.hash = balance_hash(&packet, 1);
	*network = packet.network;
	if (packet.length + balance_overhead(server) > server->mtu)
		return -1;
	if (balance_overhead(server))
		balance_write_outer(outer, server, &packet);
	return balance_overhead(server);
}

#define X(name, text) text,
const char *const fathom_balance_counter_names[BALANCE_COUNTER_COUNT] = { BALANCE_COUNTERS(X) };
const char *const fathom_balance_check_counter_names[BALANCE_CHECK_COUNTER_COUNT] = { BALANCE_CHECK_COUNTERS(X) };
const char *const fathom_balance_encapsulation_names[BALANCE_ENCAPSULATION_COUNT] = { BALANCE_ENCAPSULATIONS(X) };
#undef X
