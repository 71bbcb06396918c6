/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tunnels: from behind an IP or UDP header to the frame inside. Pure. */
#ifndef FATHOM_PACKET_TUNNEL_H
#define FATHOM_PACKET_TUNNEL_H

#include "packet_network.h"

#define PACKET_PORT_VXLAN 4789
#define PACKET_PORT_VXLAN_LINUX 8472 /* the kernel's default, older than the standard */
#define PACKET_PORT_GENEVE 6081

static __always_inline enum packet_verdict packet_read_gre(const struct packet_bytes *bytes, struct packet *packet,
							   struct packet_cursor *at)
{
	const struct gre_header *gre = packet_at(bytes, at->offset, sizeof(*gre));
	__u16 flags;

	if (!gre)
		return packet_missing(at->offset);
	flags = wire16(gre->flags_version);
	if (flags & 7) /* version 1 is PPTP's, compressed PPP */
		return PACKET_OTHER_PROTOCOL;
	at->ether_type = wire16(gre->type);
	at->offset = packet_skip(at->offset, sizeof(*gre));
	if (flags & 0x8000) /* checksum */
		at->offset = packet_skip(at->offset, 4);
	if (flags & 0x2000) { /* key */
		const struct wire_field32 *key = packet_at(bytes, at->offset, sizeof(*key));

		if (!key)
			return packet_missing(at->offset);
		packet->key.tunnel = wire32(key->value);
		at->offset = packet_skip(at->offset, 4);
	}
	if (flags & 0x1000) /* sequence number */
		at->offset = packet_skip(at->offset, 4);
	return PACKET_MEASURABLE;
}

/* MEASURABLE: the cursor is at the inner frame. OTHER_PROTOCOL: no tunnel after all. */
static __always_inline enum packet_verdict packet_read_udp_tunnel(const struct packet_bytes *bytes,
								  struct packet *packet, struct packet_cursor *at)
{
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
	return at->destination_port == PACKET_PORT_VXLAN || at->destination_port == PACKET_PORT_VXLAN_LINUX ||
	       at->destination_port == PACKET_PORT_GENEVE;
}

static __always_inline enum packet_step packet_read_tunnel(const struct packet_bytes *bytes, struct packet *packet,
							   struct packet_cursor *at, enum packet_verdict *verdict)
{
	if (at->protocol == IP_PROTOCOL_GRE)
		*verdict = packet_read_gre(bytes, packet, at);
	else if (at->protocol == IP_PROTOCOL_UDP)
		*verdict = packet_read_udp_tunnel(bytes, packet, at);
	else
		*verdict = packet_read_version(bytes, at);
	return *verdict == PACKET_MEASURABLE ? PACKET_STEP_NEXT_LAYER : PACKET_STEP_STOP;
}

#endif
