/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tunnels: from behind an IP or UDP header to the frame inside. Pure.
 *
 * The key of the flow inside has what names the tunnel in both directions: a VNI, the session of a mirror. GRE's key and GTP's
 * tunnel endpoint identifier do not: each end chooses its own, and a flow's two directions would be two flows.
 */
#ifndef FATHOM_PACKET_TUNNEL_H
#define FATHOM_PACKET_TUNNEL_H

#include "packet_network.h"

#define PACKET_PORT_VXLAN 4789
#define PACKET_PORT_VXLAN_LINUX 8472 /* the kernel's default, older than the standard */
#define PACKET_PORT_GENEVE 6081
#define PACKET_PORT_GTP 2152
#define PACKET_PORT_GRE 4754 /* RFC 8086 */
#define PACKET_GTP_EXTENSIONS_MAX 4

/* Types II and III, from the ERSPAN header on. */
static __always_inline enum packet_verdict packet_read_erspan(const struct packet_bytes *bytes, struct packet *packet,
							      struct packet_cursor *at)
{
	const struct erspan_header *erspan = packet_at(bytes, at->offset, sizeof(*erspan));
	const struct erspan_iii_header *more;

	if (!erspan)
		return packet_missing(at->offset);
	packet->key.tunnel = wire16(erspan->session) & 0x03ff;
	at->offset = packet_skip(at->offset, sizeof(*erspan));
	if (at->ether_type == ETHER_TYPE_ERSPAN_III) {
		more = packet_at(bytes, at->offset, sizeof(*more));
		if (!more)
			return packet_missing(at->offset);
		at->offset = packet_skip(at->offset, sizeof(*more) + (wire16(more->flags) & 1) * 8);
	}
	at->ether_type = ETHER_TYPE_BRIDGED;
	return PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_gre(const struct packet_bytes *bytes, struct packet *packet,
							   struct packet_cursor *at)
{
	const struct gre_header *gre = packet_at(bytes, at->offset, sizeof(*gre));
	__u16 flags;

	if (!gre)
		return packet_missing(at->offset);
	flags = wire16(gre->flags_version);
	if (flags & GRE_UNKNOWN)
		return PACKET_OTHER_PROTOCOL;
	at->ether_type = wire16(gre->type);
	at->offset = packet_skip(at->offset, sizeof(*gre));
	if (flags & GRE_HAS_CHECKSUM)
		at->offset = packet_skip(at->offset, 4);
	if (flags & GRE_HAS_KEY)
		at->offset = packet_skip(at->offset, 4);
	if (flags & GRE_HAS_SEQUENCE)
		at->offset = packet_skip(at->offset, 4);
	else if (at->ether_type == ETHER_TYPE_ERSPAN) /* type I: no header of its own */
		at->ether_type = ETHER_TYPE_BRIDGED;
	if (at->ether_type == ETHER_TYPE_ERSPAN || at->ether_type == ETHER_TYPE_ERSPAN_III)
		return packet_read_erspan(bytes, packet, at);
	return PACKET_MEASURABLE;
}

/* Not inline: see packet_read_extensions. From the first extension header, of type `next`, to behind the last. */
static enum packet_verdict packet_read_gtp_extensions(const struct packet_bytes *bytes, __u8 next,
						      struct packet_cursor *at)
{
	int i;

	for (i = 0; i < PACKET_GTP_EXTENSIONS_MAX && next; i++) {
		const __u8 *length = packet_at(bytes, at->offset, 1);
		const __u8 *type;

		if (!length)
			return packet_missing(at->offset);
		if (!*length)
			return PACKET_MALFORMED;
		at->offset = packet_skip(at->offset, *length * 4);
		type = packet_at(bytes, at->offset - 1, 1);
		if (!type)
			return packet_missing(at->offset);
		next = *type;
	}
	return next ? PACKET_TOO_DEEP : PACKET_MEASURABLE;
}

static __always_inline enum packet_verdict packet_read_gtp(const struct packet_bytes *bytes, struct packet_cursor *at)
{
	const struct gtp_header *gtp = packet_at(bytes, at->offset, sizeof(*gtp));
	enum packet_verdict verdict;
	__u8 flags;

	if (!gtp)
		return packet_missing(at->offset);
	flags = gtp->flags;
	if ((flags & GTP_VERSION) != GTP_VERSION_1 || gtp->type != GTP_PACKET)
		return PACKET_OTHER_PROTOCOL;
	at->offset = packet_skip(at->offset, sizeof(*gtp));
	if (flags & GTP_HAS_OPTIONS) {
		const __u8 *options = packet_at(bytes, at->offset, 4);

		if (!options)
			return packet_missing(at->offset);
		at->offset = packet_skip(at->offset, 4);
		if (flags & GTP_HAS_EXTENSION) {
			verdict = packet_read_gtp_extensions(bytes, options[3], at);
			if (verdict != PACKET_MEASURABLE)
				return verdict;
		}
	}
	return packet_read_version(bytes, at);
}

/* MEASURABLE: the cursor is at the inner frame. OTHER_PROTOCOL: no tunnel after all. */
static __always_inline enum packet_verdict packet_read_udp_tunnel(const struct packet_bytes *bytes,
								  struct packet *packet, struct packet_cursor *at)
{
	if (at->destination_port == PACKET_PORT_GTP)
		return packet_read_gtp(bytes, at);
	if (at->destination_port == PACKET_PORT_GENEVE) {
		const struct geneve_header *geneve = packet_at(bytes, at->offset, sizeof(*geneve));

		if (!geneve)
			return packet_missing(at->offset);
		if (geneve->version_options >> 6)
			return PACKET_OTHER_PROTOCOL;
		packet->key.tunnel = wire32(geneve->vni) >> 8;
		at->ether_type = wire16(geneve->type);
		at->offset = packet_skip(at->offset, sizeof(*geneve) + (geneve->version_options & 0x3f) * 4);
	} else {
		const struct vxlan_header *vxlan = packet_at(bytes, at->offset, sizeof(*vxlan));

		if (!vxlan)
			return packet_missing(at->offset);
		if (wire32(vxlan->flags) != 0x08000000)
			return PACKET_OTHER_PROTOCOL;
		packet->key.tunnel = wire32(vxlan->vni) >> 8;
		at->ether_type = ETHER_TYPE_BRIDGED;
		at->offset = packet_skip(at->offset, sizeof(*vxlan));
	}
	return PACKET_MEASURABLE;
}

static __always_inline int packet_is_udp_tunnel(const struct packet_cursor *at)
{
	switch (at->destination_port) {
	case PACKET_PORT_VXLAN:
	case PACKET_PORT_VXLAN_LINUX:
	case PACKET_PORT_GENEVE:
	case PACKET_PORT_GTP:
	case PACKET_PORT_GRE:
		return 1;
	default:
		return 0;
	}
}

static __always_inline enum packet_step packet_read_tunnel(const struct packet_bytes *bytes, struct packet *packet,
							   struct packet_cursor *at, enum packet_verdict *verdict)
{
	if (at->protocol == IP_PROTOCOL_GRE ||
	    (at->protocol == IP_PROTOCOL_UDP && at->destination_port == PACKET_PORT_GRE))
		*verdict = packet_read_gre(bytes, packet, at);
	else if (at->protocol == IP_PROTOCOL_UDP)
		*verdict = packet_read_udp_tunnel(bytes, packet, at);
	else
		*verdict = packet_read_version(bytes, at);
	return *verdict == PACKET_MEASURABLE ? PACKET_STEP_NEXT_LAYER : PACKET_STEP_STOP;
}

#endif
