/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The way of a packet; README.md has the same in words. */
#ifndef FATHOM_BALANCE_BPF_H
#define FATHOM_BALANCE_BPF_H

#include "route.bpf.h"

/* Flows that are measured lie together, so that their states do: what is not touched need not be in memory, or in the cache. */
static __always_inline int balance_is_sampled(__u64 hash)
{
	__u32 zero = 0;
	const __u64 *buckets = bpf_map_lookup_elem(&balance_sampling, &zero);

	return buckets && balance_first_bucket(hash, balance_config.bucket_mask) < BALANCE_LOAD(*buckets);
}

static __always_inline int balance_is_measured(const struct balance_packet *packet)
{
	return balance_config.is_measuring && packet->service_flags & BALANCE_IS_MEASURED &&
	       !(packet->service_flags & BALANCE_IS_BY_CLIENT) && balance_is_sampled(packet->hash);
}

/*
 * May the table be left out? Only for TCP, whose new connections can be told from known ones, and within them: what begins or ends one is looked up.
 * Now and then the rest is, too, or the connection would lose its slot for being idle.
 */
static __always_inline int balance_is_settled(const struct balance_packet *packet,
					      const struct balance_traffic *traffic)
{
	return balance_config.has_settled && (packet->ring & BALANCE_ENTRY_MARKS) == BALANCE_ENTRY_IS_SETTLED &&
	       packet->protocol == IP_PROTOCOL_TCP && !(packet->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST)) &&
	       traffic->packets & BALANCE_LOOK_ANYWAY;
}

static __always_inline int balance_is_syn(const struct balance_packet *packet)
{
	return packet->protocol == IP_PROTOCOL_TCP && !(packet->service_flags & BALANCE_IS_BY_CLIENT) &&
	       (packet->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
}

static __always_inline int balance_is_end(const struct balance_packet *packet)
{
	return packet->protocol == IP_PROTOCOL_TCP && !(packet->service_flags & BALANCE_IS_BY_CLIENT) &&
	       packet->tcp_flags & (TCP_FIN | TCP_RST);
}

/* A packet of a flow that the table does not know. Returns the number of its slot and 1; 0: it has none. */
static __always_inline __u32 balance_on_unknown(struct balance_cpu *cpu, struct balance_packet *packet,
						struct balance_traffic *traffic, __u32 now)
{
	if (packet->protocol == IP_PROTOCOL_TCP && (packet->tcp_flags & (TCP_SYN | TCP_ACK)) != TCP_SYN) {
		cpu->counters[BALANCE_COUNT_MISSES]++;
		traffic->misses++;
		if (balance_is_end(packet))
			return 0;
	} else {
		traffic->connections++;
	}
	return packet->server ? balance_keep(packet, cpu, now) : 0;
}

/* A packet of a connection in the table. Returns whether it begins another one, at the same slot. */
static __always_inline int balance_on_known(struct balance_cpu *cpu, struct balance_packet *packet,
					    struct balance_connection *connection, struct balance_traffic *traffic,
					    __u16 named, __u32 now)
{
	int is_syn = balance_is_syn(packet);
	__u8 measured = balance_mark(packet);

	if (balance_begins_anew(connection, is_syn, now, balance_settings()) ||
	    (named && named != (__u16)connection->word)) {
		balance_write(connection, balance_tag(packet->hash), packet->server, now, packet->service,
			      packet->protocol, measured);
		traffic->connections++;
		cpu->counters[BALANCE_COUNT_OPENED]++;
		return 1;
	}
	packet->server = BALANCE_LOAD(connection->word);
	traffic->hits++;
	cpu->counters[BALANCE_COUNT_HITS]++;
	if (!is_syn)
		balance_touch(connection, now, measured | (balance_is_end(packet) ? BALANCE_IS_CLOSING : 0));
	return 0;
}

/* Finds the server of a flow, in the table if it must be asked, and measures it there. */
static __always_inline void balance_connect(struct xdp_md *xdp, struct balance_cpu *cpu, struct balance_packet *packet,
					    const struct balance_service *service, struct balance_traffic *traffic)
{
	int is_measured = balance_is_measured(packet), is_opened = 1;
	struct balance_connection *connection;
	struct balance_measured *measured;
	__u32 slot = 0, is_kept = 1;
	__u16 named = 0, previous = BALANCE_NO_SERVER;
	__u32 units;
	__u64 now;

	if (packet->service_flags & BALANCE_HAS_QUIC_IDS && packet->protocol == IP_PROTOCOL_UDP)
		named = balance_name_by_quic(xdp, packet, cpu);
	packet->server = named ? named : packet->ring & ~BALANCE_ENTRY_MARKS;
	if (!is_measured && (named || balance_is_settled(packet, traffic))) {
		traffic->by_hash++;
		cpu->counters[BALANCE_COUNT_BY_HASH] += !named;
		return;
	}
	/* Before anything that is not in the cache is asked for: to read this clock waits for all loads. */
	now = is_measured ? bpf_ktime_get_ns() : 0;
	packet->flags |= is_measured ? BALANCE_PACKET_IS_MEASURED : 0;
	units = balance_time();
	connection = balance_look_up(packet->hash, &slot);
	if (connection) {
		/* What lies at its slot may be of others. */
		if (connection->flags & BALANCE_WAS_MEASURED)
			previous = BALANCE_LOAD(connection->word);
		is_opened = balance_on_known(cpu, packet, connection, traffic, named, units);
	} else {
		is_kept = balance_on_unknown(cpu, packet, traffic, units);
		slot = is_kept - 1;
	}
	if (is_opened && packet->protocol == IP_PROTOCOL_TCP && balance_config.has_settled)
		balance_freshen(service, packet->hash);
	if (!is_measured || !is_kept)
		return;
	measured = bpf_map_lookup_elem(&balance_measured, &slot);
	if (!measured)
		return;
	cpu->counters[BALANCE_COUNT_MEASURED]++;
	if (is_opened || !previous)
		balance_measure_new(xdp, cpu, packet, measured, previous, now);
	if (packet->protocol == IP_PROTOCOL_UDP)
		packet->kind = balance_quic_kind(xdp, packet);
	else
		balance_read_timestamps(xdp, packet);
	balance_measure(xdp, cpu, packet, measured, now);
}

/* Finds where a packet goes. */
static __always_inline int balance_route(struct xdp_md *xdp, struct balance_cpu *cpu, struct balance_packet *packet)
{
	struct balance_traffic *traffic;
	struct balance_service *service;
	__u32 index;

	if (packet->flags & BALANCE_PACKET_IS_LATER)
		return balance_on_later_fragment(packet, cpu);
	if (packet->protocol != IP_PROTOCOL_TCP && packet->protocol != IP_PROTOCOL_UDP)
		return balance_on_icmp(xdp, packet, cpu);
	service = balance_find_service(&packet->destination, packet->destination_port, packet->protocol);
	if (!service)
		return balance_leave(cpu, BALANCE_COUNT_NO_SERVICE, XDP_PASS);
	balance_set_flow(packet, service);
	index = packet->service;
	traffic = bpf_map_lookup_elem(&balance_service_traffic, &index);
	if (!traffic)
		return balance_leave(cpu, BALANCE_COUNT_NO_SERVICE, XDP_PASS);
	balance_count_traffic(traffic, packet);
	balance_connect(xdp, cpu, packet, service, traffic);
	packet->ring &= ~BALANCE_ENTRY_MARKS;
	return BALANCE_SEND;
}

static __always_inline struct balance_server *balance_find_server(const struct balance_packet *packet)
{
	__u32 id = packet->server;
	struct balance_server *server = bpf_map_lookup_elem(&balance_servers, &id);

	if (!server || server->encapsulation == BALANCE_BY_NONE || server->flags & BALANCE_IS_GONE)
		return 0;
	return server;
}

static __always_inline int balance_path(struct xdp_md *xdp)
{
	struct packet_bytes bytes = balance_bytes(xdp);
	struct balance_packet packet = {};
	struct balance_server *server;
	struct balance_cpu *cpu;
	__u32 reason, zero = 0;
	int step;

	cpu = bpf_map_lookup_elem(&balance_cpus, &zero);
	if (!cpu)
		return XDP_PASS;
	reason = balance_read(&bytes, &packet);
	if (reason != BALANCE_COUNT_FORWARDED) {
		/* Or clang 14 compares one register and indexes with its copy: "R2 unbounded memory access". */
		asm volatile("" : "+r"(reason));
		return reason < BALANCE_COUNTER_COUNT ? balance_leave(cpu, reason, XDP_PASS) : XDP_PASS;
	}
	step = balance_route(xdp, cpu, &packet);
	if (step != BALANCE_SEND)
		return step;
	server = balance_find_server(&packet);
	if (!server && balance_move(&packet, cpu))
		server = balance_find_server(&packet);
	if (!server)
		return balance_leave(cpu, BALANCE_COUNT_NO_SERVER, XDP_DROP);
	if (packet.flags & BALANCE_PACKET_IS_FIRST)
		balance_note_first_fragment(&packet);
	return balance_send(xdp, cpu, &packet, server);
}

#endif
