// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The verifier refuses it: it does not ask whether `probe` is null. */
#include "../../../../crates/measure/src/hops/program.h"

int fathom_edit(struct __sk_buff *skb, const struct fathom_probe *probe)
{
	return probe->ttl == 0;
}
