/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How long the clients of a connection wait: the algorithm of `fathom response`, over what lies at the connection's slot. */
#ifndef FATHOM_BALANCE_MEASURE_BPF_H
#define FATHOM_BALANCE_MEASURE_BPF_H

#include "../../../measure/bpf/ring.bpf.h"
#include "../../../measure/src/response/process.h"
#include "maps.bpf.h"
#include "read.h"

static __always_inline const struct response_config *balance_response_settings(void)
{
	const struct response_config *config = (const struct response_config *)&response_config;

	asm volatile("" : "+r"(config));
	return config;
}

/* Set together in clang's sight: a packet's data is valid until its head is moved. */
static __always_inline struct packet_bytes balance_bytes(struct xdp_md *xdp)
{
	return (struct packet_bytes){
		.data = (void *)(long)xdp->data,
		.end = (void *)(long)xdp->data_end,
		.length = xdp->data_end - xdp->data,
	};
}

/* Options are read for what is measured alone. A function of its own, which the verifier walks once, and not once for each way to get there. */
__noinline int balance_read_timestamps(struct xdp_md *xdp, struct balance_packet *packet)
{
	struct packet_bytes bytes = balance_bytes(xdp);
	struct packet segment = {};
	__u32 header;

	if (!packet)
		return 0;
	header = packet->network + packet->length - packet->payload - packet->transport;
	packet_read_options(&bytes, packet_skip(packet->transport, 0), header, &segment);
	if (segment.flags & PACKET_HAS_TIMESTAMP) {
		packet->flags |= BALANCE_PACKET_HAS_TIMESTAMP;
		packet->tsecr = segment.tsecr;
	}
	return 0;
}

/* What the algorithm asks of a packet, but for whose it is. */
static __always_inline struct packet balance_as_request(struct xdp_md *xdp, const struct balance_packet *packet)
{
	struct packet_bytes bytes = balance_bytes(xdp);
	struct packet_cursor at = { .end = packet->network + packet->length };
	const __u8 *ttl = packet_at(&bytes, packet->network + (packet->flags & BALANCE_PACKET_IS_IPV6 ? 7 : 8), 1);
	struct packet request = {
		.payload = packet->payload,
		.seq = packet->seq,
		.ack = packet->ack,
		.tsecr = packet->tsecr,
		.kind = packet->kind,
		.tcp_flags = packet->tcp_flags,
		.flags = packet->flags & BALANCE_PACKET_HAS_TIMESTAMP ? PACKET_HAS_TIMESTAMP : 0,
		.ttl = ttl ? *ttl : 0,
	};

	request.content = response_read_content(&request, response_first_bytes(&bytes, &at, &request));
	return request;
}

/* And whose it is. */
static __always_inline void balance_name(const struct balance_packet *packet, __u32 interface, struct packet *request)
{
	struct packet_cursor at = {
		.source = packet->source,
		.destination = packet->destination,
		.protocol = packet->protocol,
		.source_port = packet->source_port,
		.destination_port = packet->destination_port,
	};

	packet_set_key(request, &at);
	request->key.interface = interface;
}

/* Until the first request, the handshake is where the flow will be, so that a SYN touches one cache line. */
static __always_inline struct response_handshake *balance_handshake(struct balance_measured *measured)
{
	return (struct response_handshake *)&measured->flow.age;
}

/* A packet of a connection that has had no request yet. */
__noinline int balance_measure_first(struct xdp_md *xdp, struct balance_packet *packet,
				     struct balance_measured *measured, __u64 now)
{
	struct response_handshake handshake;
	struct packet request;

	if (!packet || !measured)
		return 0;
	request = balance_as_request(xdp, packet);
	balance_name(packet, 0, &request);
	handshake = *balance_handshake(measured);
	__builtin_memset(&measured->flow, 0, sizeof(measured->flow));
	/* Of datagrams the handshake is empty, and stays so. */
	if (response_without_flow(&measured->flow, &handshake, packet->hash, request.direction, &request, now))
		__builtin_memset(&measured->bins, 0, sizeof(measured->bins));
	else
		*balance_handshake(measured) = handshake;
	return 0;
}

/* The epoch of a connection is over. */
__noinline int balance_tell(struct xdp_md *xdp, struct balance_cpu *cpu, struct balance_packet *packet,
			    struct balance_measured *measured, __u64 now)
{
	struct packet request = {};
	__u64 flags;
	int is_told;

	if (!cpu || !packet || !measured)
		return 0;
	is_told = measured->flow.flags & RESPONSE_IS_USED;
	balance_name(packet, xdp->ingress_ifindex, &request);
	response_end_epoch(&measured->flow, (void *)&measured->bins, &request.key, now,
			   balance_response_settings()->epoch, balance_response_settings(), &cpu->ended.epoch);
	if (!is_told)
		return 0;
	cpu->ended.server = packet->server;
	cpu->ended.service = packet->service;
	flags = ring_wake(&balance_epochs, BALANCE_RING_BYTES);
	if (bpf_ringbuf_output(&balance_epochs, &cpu->ended, sizeof(cpu->ended), flags))
		cpu->counters[BALANCE_COUNT_EPOCHS_LOST]++;
	else
		cpu->counters[BALANCE_COUNT_EPOCHS]++;
	return 0;
}

/* A connection begins at this slot; `previous`: the server of the one that was there, if it was of the same flow. */
static __always_inline void balance_measure_new(struct xdp_md *xdp, struct balance_cpu *cpu,
						struct balance_packet *packet, struct balance_measured *measured,
						__u16 previous, __u64 now)
{
	__u16 server = packet->server;

	if (previous && measured->flow.last) {
		packet->server = previous;
		balance_tell(xdp, cpu, packet, measured, now);
		packet->server = server;
	}
	measured->flow.last = 0;
	*balance_handshake(measured) = (struct response_handshake){};
}

/*
 * A packet of a connection that has had a request. Not inline, or what it keeps on its stack would be
 * on that of the program also while others are called (see balance_make_room).
 */
__noinline int balance_measure_known(struct xdp_md *xdp, struct balance_cpu *cpu, struct balance_packet *packet,
				     struct balance_measured *measured, __u64 now)
{
	enum response_counter left_out;
	struct packet request;

	if (!cpu || !packet || !measured)
		return 0;
	request = balance_as_request(xdp, packet);
	left_out = response_on_known(&measured->flow, (void *)&measured->bins, &request, now,
				     balance_response_settings());
	cpu->counters[BALANCE_COUNT_WITHOUT_TIMESTAMPS] += left_out == RESPONSE_COUNT_WITHOUT_TIMESTAMPS;
	cpu->counters[BALANCE_COUNT_DYING_EARLY] += left_out == RESPONSE_COUNT_DYING_EARLY;
	return 0;
}

/* A packet of a connection at this slot. */
static __always_inline void balance_measure(struct xdp_md *xdp, struct balance_cpu *cpu, struct balance_packet *packet,
					    struct balance_measured *measured, __u64 now)
{
	if (!measured->flow.last) {
		balance_measure_first(xdp, packet, measured, now);
		return;
	}
	if (response_is_over(&measured->flow, now, balance_response_settings()->epoch))
		balance_tell(xdp, cpu, packet, measured, now);
	balance_measure_known(xdp, cpu, packet, measured, now);
}

#endif
