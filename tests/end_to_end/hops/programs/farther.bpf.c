// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Would send probes of TTL 1 on to the destination, and drops those of TTL 2. */
#include "../../../../crates/measure/src/hops/program.h"

static long (*const skb_store_bytes)(struct __sk_buff *skb, __u32 offset, const void *from, __u32 length,
				     __u64 flags) = (void *)BPF_FUNC_skb_store_bytes;

int fathom_edit(struct __sk_buff *skb, const struct fathom_probe *probe)
{
	__u8 ttl = 64;

	if (probe && probe->ttl == 1)
		skb_store_bytes(skb, probe->network + (probe->is_ipv6 ? 7 : 8), &ttl, 1, 0);
	return probe && probe->ttl == 2;
}
