/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the balancer's programs and user space share: services, rings, servers, the table of connections, and what is counted. Pure. How a
 * flow finds its slot is in table.h, what is sent in encapsulate.h, and in which order all of it happens in balance.bpf.c.
 */
#ifndef FATHOM_BALANCE_H
#define FATHOM_BALANCE_H

#include "../../../measure/src/response/response.h"

/*
 * Services. An address, a port and a protocol are looked up as they are, then with port 0 (all ports); then both in the table of networks.
 * That an address is a service's at all, for ICMP, says an entry of its own: port 0 and IP_PROTOCOL_ICMP or IP_PROTOCOL_ICMPV6.
 */
struct balance_service_key {
	struct flow_address address;
	__u16 port; /* host order; 0: all */
	__u8 protocol; /* of the transport: IPPROTO_* */
	__u8 padding[5];
};
FATHOM_ASSERT_SIZE(struct balance_service_key, 24);

/* As the kernel's LPM trie wants it: the length of the prefix first, then the bits in network order. */
struct balance_network_key {
	__u32 prefix_length; /* 32 for port, protocol and padding, and that of the network in its IPv6 form: 96 more for IPv4 */
	__u16 port;
	__u8 protocol;
	__u8 padding;
	struct flow_address address;
};
FATHOM_ASSERT_SIZE(struct balance_network_key, 24);
#define BALANCE_NETWORK_PREFIX 32

enum balance_service_flag {
	BALANCE_IS_MEASURED = 1 << 0, /* how long its clients wait: of the flows that are sampled */
	BALANCE_HAS_QUIC_IDS = 1 << 1, /* connection ids may name the server */
	BALANCE_IS_BY_CLIENT = 1 << 2, /* all flows of an address are one: they stay together; not measured */
	BALANCE_ANSWERS_ECHO = 1 << 3, /* of the entry for ICMP */
};

struct balance_service {
	__u32 ring_begin; /* in balance_rings, elements */
	__u32 ring_size; /* entries; 0: no server */
	__u16 index; /* of its counters, and in the table of connections */
	__u8 flags; /* enum balance_service_flag */
	__u8 padding[5];
};
FATHOM_ASSERT_SIZE(struct balance_service, 16);

/*
 * Rings. An entry is a server's number and two marks in 16 bits, and four are an element, which is changed as a whole: by user space, and by the CPU that opens a
 * connection. Settled: all connections in the table that hash to this entry have this server, and are confirmed. Fresh: one was opened since user space
 * began to look for those. An entry that is settled and not fresh need not be looked up (see README.md).
 */
#define BALANCE_RING_LANES 4
#define BALANCE_ENTRY_IS_SETTLED 0x8000
#define BALANCE_ENTRY_IS_FRESH 0x4000
#define BALANCE_ENTRY_MARKS (BALANCE_ENTRY_IS_SETTLED | BALANCE_ENTRY_IS_FRESH)

struct balance_ring_element {
	__u16 entries[BALANCE_RING_LANES];
};
FATHOM_ASSERT_SIZE(struct balance_ring_element, 8);

/* Servers have numbers from 1 on; 0: none. */
#define BALANCE_NO_SERVER 0
#define BALANCE_SERVERS_MAX 0x4000

/* How packets get to a server; the texts are what users write. */
#define BALANCE_ENCAPSULATIONS(X)                                                                                      \
	X(NONE, "none") /* there is no such server */                                                                  \
	X(LAYER2, "layer2") /* a new destination of the frame, and nothing else */                                     \
	X(IPIP, "ipip") /* RFC 2003, 2473, 4213: IPv4 or IPv6 in either */                                             \
	X(GUE, "gue") /* the same behind UDP and four bytes: variant 0 of draft-ietf-intarea-gue */

#define X(name, text) BALANCE_BY_##name,
enum balance_encapsulation { BALANCE_ENCAPSULATIONS(X) BALANCE_ENCAPSULATION_COUNT };
#undef X

enum balance_server_flag {
	BALANCE_IS_GONE = 1 << 0, /* its flows are hashed again; one that drains just has no entries in rings */
};

/* What user space changes while packets pass are words: the two of link-layer addresses, and that of encapsulation and flags. */
struct balance_server {
	struct flow_address source; /* outer; both of one family */
	struct flow_address destination;
	__u8 next_hop[6]; /* Ethernet: where frames for it go */
	__u16 vlan; /* control field of the tag; 0: untagged. Tags that the packet had are taken off */
	__u8 own[6]; /* Ethernet: where they come from */
	__u16 mtu; /* bytes of IP that the path takes, the outer headers included */
	__u32 interface; /* 0: back through the one that the packet came from */
	__u16 gue_port;
	__u8 encapsulation; /* enum balance_encapsulation */
	__u8 flags; /* enum balance_server_flag */
	__u8 ttl; /* outer */
	__u8 spread_bits; /* so many low bits of the outer source are the flow's hash: receivers spread flows by addresses. At most 32 */
	__u8 padding[6];
};
FATHOM_ASSERT_SIZE(struct balance_server, 64);

/*
 * Connections. Time of the table is in units of 1.07 s (2^30 ns). Its clock is the kernel's tick (jiffies64), which costs nothing to read; any other
 * costs 20 ns and more.
 */
#define BALANCE_TIME_SHIFT 30
#define BALANCE_TICK_NS 4000000
#define BALANCE_BUCKET_SLOTS 4

enum balance_connection_flag {
	BALANCE_IS_CONFIRMED = 1 << 0, /* has sent more than its first packet */
	BALANCE_IS_CLOSING = 1 << 1, /* FIN or RST */
	BALANCE_WAS_MEASURED = 1 << 2, /* its last packet was: its slot of balance_measured holds what is its own */
};

struct balance_connection {
	__u64 word; /* 48 bits of the flow's hash << 16 | server; 0: unused. Read and written as a whole */
	__u32 used; /* when a packet last came, in units of the table */
	__u16 service; /* index */
	__u8 flags; /* enum balance_connection_flag */
	__u8 protocol;
};
FATHOM_ASSERT_SIZE(struct balance_connection, 16);

/* A cache line. */
struct balance_bucket {
	struct balance_connection connections[BALANCE_BUCKET_SLOTS];
};
FATHOM_ASSERT_SIZE(struct balance_bucket, 64);

/* What is measured of a connection; at BALANCE_BUCKET_SLOTS * bucket + slot. */
struct balance_measured {
	struct response_flow
		flow; /* flow.last is 0 until the first request; till then, behind it, is a struct response_handshake */
	struct response_bins bins;
};
FATHOM_ASSERT_SIZE(struct balance_measured, 144);

/* An epoch of a connection that is over. */
struct balance_epoch {
	struct response_epoch epoch;
	__u16 server;
	__u16 service; /* index */
	__u32 padding;
};

/* QUIC-LB (draft-ietf-quic-load-balancers): the server's part of a connection id, as it stands there. */
#define BALANCE_QUIC_CONFIGS 8
#define BALANCE_QUIC_ID_MAX 8

struct balance_quic_id {
	__u8 bytes[BALANCE_QUIC_ID_MAX]; /* the rest is 0 */
	__u8 config; /* top three bits of the connection id */
	__u8 padding[7];
};
FATHOM_ASSERT_SIZE(struct balance_quic_id, 16);

/*
 * Services that a CPU has seen are at hand for it, for a unit of time: the kernel's hash table costs 35 ns. Whoever changes balance_services or
 * balance_networks, and wants it to be seen at once, counts balance_generation up afterwards.
 */
#define BALANCE_RECENT 64

struct balance_recent {
	struct balance_service_key key;
	struct balance_service service;
	__u64 stamp; /* unit of time << 32 | generation, as of before the service was looked up, and 1; 0: unused */
};
FATHOM_ASSERT_SIZE(struct balance_recent, 48);

/* Set before load. The programs leave out what is not there. */
struct balance_config {
	__u64 seed; /* secret, of the flow's hash; who takes a table over takes its seed */
	__u32 bucket_mask; /* buckets of the table, less one */
	__u32 idle; /* units: a confirmed connection that was silent for longer may lose its slot to a new one */
	__u32 closing; /* units: the same after FIN or RST */
	__u32 opening; /* units: the same, not confirmed */
	__u32 datagram_idle; /* units: after that a flow of datagrams begins anew */
	__u8 has_all_ports; /* services for all ports of an address */
	__u8 has_networks;
	__u8 is_measuring; /* some service is measured */
	__u8 has_settled; /* entries of rings may be settled */
	__u32 tick_ns; /* of jiffies64: the resolution of CLOCK_MONOTONIC_COARSE; 0: BALANCE_TICK_NS */
	__u8 quic_id_lengths[BALANCE_QUIC_CONFIGS]; /* bytes of server id by config; 0: no such config */
	__u32 padding;
};
FATHOM_ASSERT_SIZE(struct balance_config, 48);

/* Of a service, or of a server; by each CPU. */
struct balance_traffic {
	__u64 packets;
	__u64 bytes; /* of IP */
	__u64 connections; /* new ones */
	__u64 hits; /* in the table */
	__u64 misses; /* packets of no connection in the table, without those that begin one */
	__u64 by_hash; /* for which the table was not asked */
};
FATHOM_ASSERT_SIZE(struct balance_traffic, 48);

/* What became of a packet, and of the table; the texts are what users see. */
#define BALANCE_COUNTERS(X)                                                                                            \
	X(FORWARDED, "forwarded")                                                                                      \
	X(NOT_IP, "passed on: not IP")                                                                                 \
	X(NO_SERVICE, "passed on: to no service")                                                                      \
	X(OTHER_PROTOCOL, "passed on: neither TCP, UDP nor ICMP")                                                      \
	X(TRUNCATED, "passed on: header cut short")                                                                    \
	X(MALFORMED, "passed on: malformed header")                                                                    \
	X(TOO_DEEP, "passed on: too many headers")                                                                     \
	X(FRAGMENT_UNKNOWN, "passed on: fragment whose first was not seen")                                            \
	X(FRAGMENTS, "later fragments forwarded")                                                                      \
	X(ICMP_OTHER, "passed on: ICMP to a service, neither echo nor an error")                                       \
	X(ICMP_UNKNOWN, "passed on: ICMP error about no service")                                                      \
	X(ICMP_ERRORS, "ICMP errors forwarded")                                                                        \
	X(ECHO, "echo answered")                                                                                       \
	X(TOO_LONG, "too long for the path to the server: client told")                                                \
	X(TOO_LONG_DROPPED, "dropped: too long for the path to the server, client not told")                           \
	X(NO_SERVER, "dropped: no server")                                                                             \
	X(NO_ROOM, "dropped: no room for the headers")                                                                 \
	X(HITS, "connections found")                                                                                   \
	X(BY_HASH, "connections not looked up")                                                                        \
	X(MISSES, "packets of no connection that is known")                                                            \
	X(OPENED, "connections opened")                                                                                \
	X(REPLACED_OPENING, "connections replaced: only opened")                                                       \
	X(REPLACED_CLOSED, "connections replaced: closed")                                                             \
	X(REPLACED_IDLE, "connections replaced: idle")                                                                 \
	X(RELOCATED, "connections put elsewhere in the table")                                                         \
	X(REFUSED, "connections not kept: table busy")                                                                 \
	X(MOVED, "connections moved: server gone")                                                                     \
	X(QUIC_NAMED, "packets whose connection id names the server")                                                  \
	X(QUIC_UNKNOWN, "packets whose connection id names no server that is known")                                   \
	X(MEASURED, "packets measured")                                                                                \
	X(EPOCHS, "epochs")                                                                                            \
	X(EPOCHS_LOST, "epochs lost: ring buffer full")                                                                \
	X(WITHOUT_TIMESTAMPS, "segments without timestamps in a connection that has them")                             \
	X(DYING_EARLY, "segments with a TTL far below their connection's")

#define X(name, text) BALANCE_COUNT_##name,
enum balance_counter { BALANCE_COUNTERS(X) BALANCE_COUNTER_COUNT };
#undef X

/* What each CPU counts, and room to work on an epoch that is over. The counters come first: user space reads them in their order. */
struct balance_cpu {
	__u64 counters[BALANCE_COUNTER_COUNT];
	struct balance_epoch ended;
};

/*
 * Checks of health. Their sockets have a mark that names the server, and what leaves with it takes the way of clients' packets: see checks.bpf.h.
 */
struct balance_checks_config {
	__u64 seed; /* as in balance_config: a flow has the same outer headers, whoever writes them */
	__u32 mark; /* whose low 14 bits are 0: there is the server's number */
	__u32 interface; /* of servers whose interface is 0; 0: the one that the packet leaves by anyway */
};
FATHOM_ASSERT_SIZE(struct balance_checks_config, 16);

/* What became of their packets. */
#define BALANCE_CHECK_COUNTERS(X)                                                                                      \
	X(SENT, "packets of checks sent the way of clients' packets")                                                  \
	X(NO_SERVER, "packets of checks dropped: no server")                                                           \
	X(UNREADABLE, "packets of checks dropped: not TCP")                                                            \
	X(TOO_LONG, "packets of checks dropped: too long for the path to the server")                                  \
	X(NO_ROOM, "packets of checks dropped: no room for the headers")

#define X(name, text) BALANCE_CHECK_##name,
enum balance_check_counter { BALANCE_CHECK_COUNTERS(X) BALANCE_CHECK_COUNTER_COUNT };
#undef X

/* The entry of a flow in a ring of so many entries, by its word in the table. */
static __always_inline __u32 balance_ring_entry(__u64 word, __u32 ring_size)
{
	return (word >> 32) * ring_size >> 32;
}

#endif
