/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probes that `hops` on this host sends, in the hooks that they pass.
 *
 * Before it clones a packet, `hops` writes a note into the packet's control block (`skb->cb`), which belongs to traffic
 * control here; afterwards it puts back what was there. The clone keeps the note: through the hook, where it becomes the
 * probe, and through the one of each device that it leaves by. It goes where the packet is read anew, as by the IP layer of
 * another namespace. So no program of ours ever clones a clone, or counts one, whichever programs are attached in whatever
 * order, and whatever becomes of maps. The mark of the packet stays the user's.
 */
#ifndef FATHOM_OWN_PROBE_BPF_H
#define FATHOM_OWN_PROBE_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>

/* Elsewhere these bytes are whatever a protocol left there: 64 bits are not met by chance. */
#define OWN_PROBE_FIRST 0x9f3c6a71
#define OWN_PROBE_SECOND 0xd5820be4

static __always_inline int is_own_probe(const struct __sk_buff *skb)
{
	return skb->cb[0] == OWN_PROBE_FIRST && skb->cb[1] == OWN_PROBE_SECOND;
}

static __always_inline void own_probe_note(struct __sk_buff *skb)
{
	skb->cb[0] = OWN_PROBE_FIRST;
	skb->cb[1] = OWN_PROBE_SECOND;
}

#endif
