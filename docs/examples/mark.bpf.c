// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Probes in another class of traffic, and which class routers saw them in:
 *
 *	clang -O2 -g -target bpf -I/usr/include/$(uname -m)-linux-gnu -c mark.bpf.c
 *	fathom hops -i eth0 --each-probe --probe-program mark.bpf.o --reply-program mark.bpf.o
 *
 * fathom_edit marks probes as expedited forwarding (RFC 3246). fathom_extract tells the type of service, or traffic class,
 * and the TTL of the probe as its router quotes it: 0xb801 where the mark was kept, 0x1 where it was taken off.
 */
#include "../../crates/measure/src/hops/program.h"

#define EXPEDITED 0xb8
#define ICMP_BYTES 8

/* As in libbpf's bpf_helpers.h. */
static long (*const skb_load_bytes)(const void *skb, __u32 offset, void *to,
				    __u32 length) = (void *)BPF_FUNC_skb_load_bytes;
static long (*const skb_store_bytes)(struct __sk_buff *skb, __u32 offset, const void *from, __u32 length,
				     __u64 flags) = (void *)BPF_FUNC_skb_store_bytes;
static long (*const l3_csum_replace)(struct __sk_buff *skb, __u32 offset, __u64 from, __u64 to,
				     __u64 size) = (void *)BPF_FUNC_l3_csum_replace;

int fathom_edit(struct __sk_buff *skb, const struct fathom_probe *probe)
{
	__u8 bytes[2];
	__u16 old, new;

	if (!probe || skb_load_bytes(skb, probe->network, bytes, sizeof(bytes)))
		return 0;
	__builtin_memcpy(&old, bytes, sizeof(old));
	if (probe->is_ipv6) {
		bytes[0] = 0x60 | EXPEDITED >> 4;
		bytes[1] = (__u8)(EXPEDITED << 4) | (bytes[1] & 0x0f);
	} else {
		bytes[1] = EXPEDITED;
		__builtin_memcpy(&new, bytes, sizeof(new));
		l3_csum_replace(skb, probe->network + 10, old, new, sizeof(new));
	}
	skb_store_bytes(skb, probe->network, bytes, sizeof(bytes), 0);
	return 0;
}

__u64 fathom_extract(struct __sk_buff *skb, const struct fathom_probe *probe)
{
	__u8 quote[9];

	if (!probe || skb_load_bytes(skb, probe->transport + ICMP_BYTES, quote, sizeof(quote)))
		return 0;
	if (probe->is_ipv6)
		return (__u64)(__u8)(quote[0] << 4 | quote[1] >> 4) << 8 | quote[7];
	return (__u64)quote[1] << 8 | quote[8];
}
