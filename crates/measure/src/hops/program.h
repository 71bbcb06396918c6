/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a function of your own sees of a probe. Write one or both of
 *
 *	int fathom_edit(struct __sk_buff *skb, const struct fathom_probe *probe);
 *	__u64 fathom_extract(struct __sk_buff *skb, const struct fathom_probe *probe);
 *
 * compile them with `clang -O2 -g -target bpf`, and give the object to --probe-program or --reply-program. README.md beside
 * this file says what they may do. This file needs nothing but <linux/bpf.h>: copy it to where you need it.
 */
#ifndef FATHOM_PROGRAM_H
#define FATHOM_PROGRAM_H

#include <linux/bpf.h>
#include <linux/types.h>

struct fathom_probe {
	__u64 sent; /* ns, CLOCK_MONOTONIC; fathom_edit: 0, since it is not sent yet */
	__u32 number; /* as records tell it */
	__u32 network; /* where the IP header is in `skb` */
	__u32 transport; /* where the header behind it is: the probe's own, or ICMP's in an answer */
	__u8 ttl; /* that the probe is sent with */
	__u8 is_ipv6;
	__u8 protocol; /* of the probe */
	__u8 padding;
};

/*
 * Edits a probe before it is sent: `skb` holds it. Returns 0 to have it sent, anything else to have it dropped. `probe` is
 * never null, but the verifier wants to see that asked.
 */
int fathom_edit(struct __sk_buff *skb, const struct fathom_probe *probe);

/* Returns what the record of the probe is to hold as `extracted`. `skb` is the ICMP message that answers it. */
__u64 fathom_extract(struct __sk_buff *skb, const struct fathom_probe *probe);

#endif
