/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a packet that was read to its server: services, connection ids, fragments, ICMP. */
#ifndef FATHOM_BALANCE_ROUTE_BPF_H
#define FATHOM_BALANCE_ROUTE_BPF_H

#include "connections.bpf.h"
#include "measure.bpf.h"
#include "quic.h"
#include "send.bpf.h"

/* Where a packet goes that the balancer does not send itself, or BALANCE_SEND: to packet->server. */
#define BALANCE_SEND (-1)

static __always_inline struct balance_service *balance_find_network(const struct flow_address *address, __u16 port,
								    __u8 protocol)
{
	struct balance_network_key key = {
		.prefix_length = 8 * (sizeof(key) - sizeof(key.prefix_length)),
		.port = port,
		.protocol = protocol,
		.address = *address,
	};
	struct balance_service *service = bpf_map_lookup_elem(&balance_networks, &key);

	if (service || !port)
		return service;
	key.port = 0;
	return bpf_map_lookup_elem(&balance_networks, &key);
}

static __always_inline struct balance_service *balance_look_up_service(const struct balance_service_key *wanted)
{
	struct balance_service_key key = *wanted;
	struct balance_service *service = bpf_map_lookup_elem(&balance_services, &key);

	if (service)
		return service;
	if (key.port && balance_config.has_all_ports) {
		key.port = 0;
		service = bpf_map_lookup_elem(&balance_services, &key);
	}
	if (!service && balance_config.has_networks)
		service = balance_find_network(&wanted->address, wanted->port, wanted->protocol);
	return service;
}

/* What is at hand as of now has this stamp. */
static __always_inline __u64 balance_stamp(void)
{
	__u32 zero = 0;
	const __u64 *generation = bpf_map_lookup_elem(&balance_generation, &zero);

	return ((__u64)balance_time() << 32 | (generation ? (__u32)BALANCE_LOAD(*generation) : 0)) + 1;
}

/* Finds a service in the maps, and has it at hand from now on. Returns whether there is one. */
__noinline int balance_recall(struct balance_service_key *key, struct balance_recent *recent)
{
	struct balance_service *service;
	__u64 stamp = balance_stamp();

	if (!key || !recent)
		return 0;
	asm volatile("" ::: "memory"); /* a change after this makes what was found outdated */
	service = balance_look_up_service(key);
	if (!service)
		return 0;
	recent->key = *key;
	recent->service = *service;
	recent->stamp = stamp;
	return 1;
}

static __always_inline int balance_is_recent(const struct balance_recent *recent, const struct balance_service_key *key)
{
	const __u64 *own = (const __u64 *)&recent->key, *other = (const __u64 *)key;

	return own[0] == other[0] && own[1] == other[1] && own[2] == other[2] && recent->stamp == balance_stamp();
}

static __always_inline struct balance_service *balance_find_service(const struct flow_address *address, __u16 port,
								    __u8 protocol)
{
	struct balance_service_key key = { .address = *address, .port = port, .protocol = protocol };
	__u64 hash = flow_hash_step(address->words[0] ^ address->words[1], (__u64)port << 16 | protocol);
	__u32 index = hash >> 32 & (BALANCE_RECENT - 1);
	struct balance_recent *recent = bpf_map_lookup_elem(&balance_recent, &index);

	if (!recent)
		return 0;
	if (!balance_is_recent(recent, &key) && !balance_recall(&key, recent))
		return 0;
	return &recent->service;
}

/* The flow of a packet to this service. */
static __always_inline void balance_set_flow(struct balance_packet *packet, const struct balance_service *service)
{
	packet->service = service->index;
	packet->service_flags = service->flags;
	packet->hash = balance_hash(packet, balance_config.seed);
	packet->ring = balance_look_at_ring(service, packet->hash);
}

/* A word for the slot of a datagram's fragments, and the slot. */
static __always_inline __u64 balance_fragment_tag(const struct balance_packet *packet, __u32 *slot)
{
	__u64 hash = balance_config.seed;

	hash = flow_hash_step(hash, packet->source.words[0]);
	hash = flow_hash_step(hash, packet->source.words[1]);
	hash = flow_hash_step(hash, packet->destination.words[0]);
	hash = flow_hash_step(hash, packet->destination.words[1]);
	hash = flow_hash_step(hash, packet->identification);
	/* RFC 791, section 3.2: fragments of a datagram have one protocol. */
	hash = flow_hash_step(hash, packet->flags & BALANCE_PACKET_IS_IPV6 ? 0 : packet->protocol);
	*slot = hash & 4095;
	return balance_tag(hash);
}

/* The first fragment tells where those behind it go: they have no ports. */
__noinline int balance_note_first_fragment(struct balance_packet *packet)
{
	__u64 tag, *word;
	__u32 slot;

	if (!packet)
		return 0;
	tag = balance_fragment_tag(packet, &slot);
	word = bpf_map_lookup_elem(&balance_fragments, &slot);
	if (word)
		BALANCE_STORE(*word, tag | packet->server);
	return 0;
}

__noinline int balance_on_later_fragment(struct balance_packet *packet, struct balance_cpu *cpu)
{
	__u64 tag, *word, found;
	__u32 slot;

	if (!packet || !cpu)
		return XDP_PASS;
	tag = balance_fragment_tag(packet, &slot);
	word = bpf_map_lookup_elem(&balance_fragments, &slot);
	found = word ? BALANCE_LOAD(*word) : 0;
	if (!found || !balance_is_of(found, tag))
		return balance_leave(cpu, BALANCE_COUNT_FRAGMENT_UNKNOWN, XDP_PASS);
	packet->hash = tag;
	packet->server = found;
	cpu->counters[BALANCE_COUNT_FRAGMENTS]++;
	return BALANCE_SEND;
}

static __always_inline int balance_answer_echo(struct xdp_md *xdp, const struct balance_packet *packet)
{
	struct packet_bytes bytes = balance_bytes(xdp);
	const void *ethernet = packet_at(&bytes, 0, sizeof(struct ethernet_header));
	const void *icmp = packet_at(&bytes, packet->transport, sizeof(struct icmp_echo_header));
	const void *ip = packet_at(&bytes, packet->network, sizeof(struct ipv4_header));

	if (!ethernet || !icmp || !ip)
		return 0;
	if (packet->flags & BALANCE_PACKET_IS_IPV6) {
		ip = packet_at(&bytes, packet->network, sizeof(struct ipv6_header));
		if (!ip)
			return 0;
		balance_answer_ipv6((struct ipv6_header *)ip, (struct icmp_echo_header *)icmp);
	} else {
		balance_answer_ipv4((struct ipv4_header *)ip, (struct icmp_echo_header *)icmp);
	}
	balance_swap_ethernet((struct ethernet_header *)ethernet);
	return 1;
}

/* An error about a packet of a server: to that server. Nothing is written into the table: who sends it may be anybody. */
static __always_inline int balance_follow_error(struct xdp_md *xdp, struct balance_packet *packet,
						struct balance_cpu *cpu)
{
	struct packet_bytes bytes = balance_bytes(xdp);
	struct balance_connection *connection;
	struct balance_packet quoted = {};
	struct balance_service *service = 0;
	__u32 slot;

	if (balance_read_quoted(&bytes, packet, &quoted))
		service = balance_find_service(&quoted.destination, quoted.destination_port, quoted.protocol);
	if (!service)
		return balance_leave(cpu, BALANCE_COUNT_ICMP_UNKNOWN, XDP_PASS);
	balance_set_flow(&quoted, service);
	connection = balance_look_up(quoted.hash, &slot);
	packet->hash = quoted.hash;
	packet->ring = quoted.ring & ~BALANCE_ENTRY_MARKS;
	packet->server = connection ? BALANCE_LOAD(connection->word) : packet->ring;
	cpu->counters[BALANCE_COUNT_ICMP_ERRORS]++;
	return BALANCE_SEND;
}

__noinline int balance_on_icmp(struct xdp_md *xdp, struct balance_packet *packet, struct balance_cpu *cpu)
{
	struct balance_service *service;

	if (!packet || !cpu)
		return XDP_PASS;
	service = balance_find_service(&packet->destination, 0, packet->protocol);
	if (!service)
		return balance_leave(cpu, BALANCE_COUNT_NO_SERVICE, XDP_PASS);
	if (balance_is_error(packet))
		return balance_follow_error(xdp, packet, cpu);
	if (balance_is_echo(packet) && service->flags & BALANCE_ANSWERS_ECHO && balance_answer_echo(xdp, packet))
		return balance_leave(cpu, BALANCE_COUNT_ECHO, XDP_TX);
	return balance_leave(cpu, BALANCE_COUNT_ICMP_OTHER, XDP_PASS);
}

/* The server that the connection id names; BALANCE_NO_SERVER: none. */
__noinline int balance_name_by_quic(struct xdp_md *xdp, struct balance_packet *packet, struct balance_cpu *cpu)
{
	struct balance_quic_id id = {};
	struct packet_bytes bytes;
	__u32 *server;

	if (!packet || !cpu)
		return BALANCE_NO_SERVER;
	bytes = balance_bytes(xdp);
	if (!balance_read_quic_id(&bytes, packet, balance_settings(), &id))
		return BALANCE_NO_SERVER;
	server = bpf_map_lookup_elem(&balance_quic_ids, &id);
	cpu->counters[server ? BALANCE_COUNT_QUIC_NAMED : BALANCE_COUNT_QUIC_UNKNOWN]++;
	return server ? *server & (BALANCE_SERVERS_MAX - 1) : BALANCE_NO_SERVER;
}

/* What a datagram is to the algorithm that measures: an enum packet_kind. */
__noinline int balance_quic_kind(struct xdp_md *xdp, struct balance_packet *packet)
{
	struct packet_bytes bytes = balance_bytes(xdp);
	struct packet request = {};

	if (!packet || packet->payload < 1)
		return PACKET_KIND_NONE;
	return packet_read_quic(&bytes, packet_skip(packet->transport, sizeof(struct udp_header)), &request);
}

#endif
