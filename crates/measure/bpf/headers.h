/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The wire formats that packet.h reads, as far as it reads them. */
#ifndef FATHOM_HEADERS_H
#define FATHOM_HEADERS_H

#include <linux/types.h>

/*
 * Headers lie at any offset. A native compiler must be told; clang's BPF back end, when told, reads every field byte by
 * byte, while the kernel's own machines read packet memory unaligned.
 */
#ifdef __bpf__
#define WIRE_FORMAT
#else
#define WIRE_FORMAT __attribute__((packed))
#endif

#define wire16(field) ((__u16)__builtin_bswap16(field))
#define wire32(field) ((__u32)__builtin_bswap32(field))

/* A field on its own, at any offset. */
struct wire_field16 {
	__u16 value;
} WIRE_FORMAT;

struct wire_field32 {
	__u32 value;
} WIRE_FORMAT;

enum ether_type {
	ETHER_TYPE_IPV4 = 0x0800,
	ETHER_TYPE_ARP = 0x0806,
	ETHER_TYPE_VLAN = 0x8100,
	ETHER_TYPE_VLAN_SERVICE = 0x88a8,
	ETHER_TYPE_VLAN_OLD_SERVICE = 0x9100,
	ETHER_TYPE_IPV6 = 0x86dd,
	ETHER_TYPE_MPLS = 0x8847,
	ETHER_TYPE_MPLS_MULTICAST = 0x8848,
	ETHER_TYPE_PPPOE_DISCOVERY = 0x8863,
	ETHER_TYPE_PPPOE_SESSION = 0x8864,
	ETHER_TYPE_LLDP = 0x88cc,
	ETHER_TYPE_BRIDGED = 0x6558, /* an Ethernet frame, inside a tunnel */
	ETHER_TYPE_ERSPAN = 0x88be, /* a mirrored frame, in GRE: type I or II */
	ETHER_TYPE_ERSPAN_III = 0x22eb,
	ETHER_TYPE_LENGTH_MAX = 1500, /* up to here it is the length of an LLC frame */
};

enum ppp_protocol {
	PPP_PROTOCOL_IPV4 = 0x0021,
	PPP_PROTOCOL_IPV6 = 0x0057,
	PPP_PROTOCOL_MPLS = 0x0281,
};

enum ip_protocol {
	IP_PROTOCOL_HOP_BY_HOP = 0,
	IP_PROTOCOL_ICMP = 1,
	IP_PROTOCOL_IPV4 = 4,
	IP_PROTOCOL_TCP = 6,
	IP_PROTOCOL_UDP = 17,
	IP_PROTOCOL_IPV6 = 41,
	IP_PROTOCOL_ROUTING = 43,
	IP_PROTOCOL_FRAGMENT = 44,
	IP_PROTOCOL_GRE = 47,
	IP_PROTOCOL_ESP = 50,
	IP_PROTOCOL_AUTHENTICATION = 51,
	IP_PROTOCOL_ICMPV6 = 58,
	IP_PROTOCOL_DESTINATION_OPTIONS = 60,
};

struct ethernet_header {
	__u8 destination[6];
	__u8 source[6];
	__u16 type;
} WIRE_FORMAT;

struct vlan_header {
	__u16 control; /* priority, drop eligibility, 12 bits of id */
	__u16 type;
} WIRE_FORMAT;

struct pppoe_header {
	__u8 version_type;
	__u8 code;
	__u16 session;
	__u16 length;
} WIRE_FORMAT;

/* LLC with SNAP (RFC 1042): an EtherType again, where both start with SNAP_ETHER_TYPE. */
struct snap_header {
	__u32 llc_organization; /* DSAP, SSAP, control, and the first byte of the organization */
	__u16 organization;
	__u16 type;
} WIRE_FORMAT;

#define SNAP_ETHER_TYPE 0xaaaa0300U

/* As Cisco routers frame serial lines. */
struct hdlc_header {
	__u8 address; /* 0x0f: unicast, 0x8f: multicast; PPP has 0xff */
	__u8 control;
	__u16 type;
} WIRE_FORMAT;

struct ipv4_header {
	__u8 version_length;
	__u8 service;
	__u16 total_length;
	__u16 identification;
	__u16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__u32 source;
	__u32 destination;
} WIRE_FORMAT;

struct ipv6_header {
	__u32 version_class_flow;
	__u16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u32 source[4];
	__u32 destination[4];
} WIRE_FORMAT;

struct ipv6_extension {
	__u8 next_header;
	__u8 length; /* in 8 octets beyond the first 8; authentication: in 4 octets beyond the first 8 */
	__u16 fragment; /* fragment header only: offset << 3 | reserved | more */
} WIRE_FORMAT;

struct tcp_header {
	__u16 source;
	__u16 destination;
	__u32 seq;
	__u32 ack;
	__u8 offset;
	__u8 flags;
	__u16 window;
	__u16 checksum;
	__u16 urgent;
} WIRE_FORMAT;

/* The layout nearly every segment has: two no-operations, then the timestamp option (RFC 7323, appendix A). */
struct tcp_timestamp_option {
	__u32 kind; /* TCP_ALIGNED_TIMESTAMP */
	__u32 tsval;
	__u32 tsecr;
} WIRE_FORMAT;

struct udp_header {
	__u16 source;
	__u16 destination;
	__u16 length;
	__u16 checksum;
} WIRE_FORMAT;

struct icmp_echo_header {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__u16 id;
	__u16 sequence;
} WIRE_FORMAT;

struct gre_header {
	__u16 flags_version;
	__u16 type;
} WIRE_FORMAT;

#define GRE_HAS_CHECKSUM 0x8000
#define GRE_HAS_KEY 0x2000
#define GRE_HAS_SEQUENCE 0x1000
#define GRE_UNKNOWN 0x4c07 /* routing, reserved (RFC 2784), and another version, as PPTP's with its compressed PPP */

/* Types II and III begin alike (draft-foschiano-erspan). */
struct erspan_header {
	__u16 version_vlan;
	__u16 session; /* priority, flags, 10 bits of session */
	__u32 index;
} WIRE_FORMAT;

/* What type III has behind that. */
struct erspan_iii_header {
	__u16 group;
	__u16 flags; /* the last says whether 8 bytes of the platform's follow */
} WIRE_FORMAT;

/* 3GPP TS 29.281. */
struct gtp_header {
	__u8 flags; /* version 1 and protocol type 1 in the upper half */
	__u8 type;
	__u16 length;
	__u32 tunnel;
} WIRE_FORMAT;

#define GTP_VERSION 0xf0
#define GTP_VERSION_1 0x30
#define GTP_HAS_OPTIONS 0x07 /* any of extension, sequence number, N-PDU number: all have room then */
#define GTP_HAS_EXTENSION 0x04
#define GTP_PACKET 255

struct vxlan_header {
	__u32 flags;
	__u32 vni;
} WIRE_FORMAT;

struct geneve_header {
	__u8 version_options;
	__u8 flags;
	__u16 type;
	__u32 vni;
} WIRE_FORMAT;

struct dns_header {
	__u16 id;
	__u16 flags;
	__u16 questions;
	__u16 answers;
	__u16 authorities;
	__u16 additional;
} WIRE_FORMAT;

struct quic_long_header {
	__u8 first;
	__u8 version[4];
} WIRE_FORMAT;

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

#define TCP_OPTION_END 0
#define TCP_OPTION_NO_OPERATION 1
#define TCP_OPTION_SACK 5
#define TCP_OPTION_TIMESTAMP 8
#define TCP_ALIGNED_TIMESTAMP 0x0101080aU

#define QUIC_LONG_HEADER 0x80
#define QUIC_FIXED_BIT 0x40
#define QUIC_SPIN_BIT 0x20
#define QUIC_VERSION_1 0x00000001U
#define QUIC_VERSION_2 0x6b3343cfU

#endif
