// SPDX-License-Identifier: GPL-2.0
/*
 * The three transmit modes, and the contexts from which each may be called.
 *
 * mode     calls              may be called from
 * qdisc    dev_queue_xmit     a thread, a soft interrupt; never with interrupts off
 * direct   dev_direct_xmit    the same
 * netpoll  netpoll_send_skb   any but NMI without PREEMPT_RT; with PREEMPT_RT refused, since it calls the driver with
 *                             interrupts off, and a driver's locks sleep there
 *
 * A reply in mode `netpoll` goes the direct path: the receive handler runs inside the driver's poll, and netpoll would leave the
 * frame to a work queue then. The same happens where a frame finds the driver's queue locked for a tick.
 */
#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/moduleparam.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/sch_generic.h>

#include "uman.h"
#include "uman_kernel.h"

static bool netpoll_on_rt;
module_param_unsafe(netpoll_on_rt, bool, 0444);
MODULE_PARM_DESC(netpoll_on_rt, "permit mode netpoll on PREEMPT_RT, where drivers may sleep with interrupts off (for measurements only)");

#ifdef UMAN_DEBUG
#define uman_may_sleep_on_locks() WARN_ON_ONCE(in_hardirq() || irqs_disabled())
#else
#define uman_may_sleep_on_locks() do { } while (0)
#endif

static struct netpoll *uman_netpoll_open(struct uman *u, struct netlink_ext_ack *extack)
{
	struct netpoll *np;
	int err;

	if (IS_ENABLED(CONFIG_PREEMPT_RT) && !netpoll_on_rt) {
		NL_SET_ERR_MSG(extack, "mode netpoll calls the driver with interrupts off, which PREEMPT_RT forbids: choose qdisc or direct");
		return ERR_PTR(-EOPNOTSUPP);
	}
	if (!netif_running(u->lower)) {
		NL_SET_ERR_MSG(extack, "mode netpoll needs a lower device that is up");
		return ERR_PTR(-ENETDOWN);
	}
	np = kzalloc(sizeof(*np), GFP_KERNEL);
	if (!np)
		return ERR_PTR(-ENOMEM);
	np->name = "uman";
	strscpy(np->dev_name, u->lower->name, sizeof(np->dev_name));
	err = __netpoll_setup(np, u->lower);
	if (err) {
		kfree(np);
		NL_SET_ERR_MSG(extack, "the lower device's driver refuses netpoll: choose qdisc or direct");
		return ERR_PTR(err == -ENOTSUPP ? -EOPNOTSUPP : err);
	}
	return np;
}

/* Sets the mode; under RTNL. What was set before stays if the new one is refused. */
int uman_set_mode(struct uman *u, u8 mode, struct netlink_ext_ack *extack)
{
	struct netpoll *np = NULL, *old;

	if (mode > UMAN_MODE_NETPOLL) {
		NL_SET_ERR_MSG(extack, "unknown transmit mode: 0 qdisc, 1 direct, 2 netpoll");
		return -EINVAL;
	}
	old = rtnl_dereference(u->netpoll);
	if (mode == UMAN_MODE_NETPOLL) {
		if (old)
			return 0;
		np = uman_netpoll_open(u, extack);
		if (IS_ERR(np))
			return PTR_ERR(np);
	}
	if (np)
		rcu_assign_pointer(u->netpoll, np);
	WRITE_ONCE(u->mode, mode);
	if (old) {
		RCU_INIT_POINTER(u->netpoll, NULL);
		/* Waits for those who still send by it, and frees it. */
		__netpoll_free(old);
	}
	return 0;
}

static u16 uman_queue(const struct uman *u)
{
	unsigned int count = READ_ONCE(u->lower->real_num_tx_queues);
	u16 queue = READ_ONCE(u->queue);

	if (queue == UMAN_QUEUE_OWN)
		queue = raw_smp_processor_id();
	/* A queue that the driver has not got is a NULL pointer in some drivers. */
	return count ? queue % count : 0;
}

/*
 * Hands a frame to the lower device, which becomes its owner. Returns 0, or a negative error if it was dropped, by whomever.
 * `in_receive`: called by the receive handler.
 */
int uman_send(struct uman *u, struct sk_buff *skb, bool in_receive)
{
	u8 mode = READ_ONCE(u->mode);
	struct netpoll *np;
	int code = 0;

	/* Prepared frames and write() have not come through the stack, which sees to both. */
	if (!netif_running(u->dev))
		code = -ENETDOWN;
	else if (!skb_is_gso(skb) && skb->len > READ_ONCE(u->lower->mtu) + ETH_HLEN + VLAN_HLEN)
		code = -EMSGSIZE;
	if (code) {
		uman_count(u, UMAN_tx_failed);
		dev_kfree_skb_any(skb);
		return code;
	}
	skb->dev = u->lower;
	rcu_read_lock();
	if (mode == UMAN_MODE_NETPOLL && !in_receive) {
		np = rcu_dereference(u->netpoll);
		if (np) {
			skb_set_queue_mapping(skb, uman_queue(u));
			code = netpoll_send_skb(np, skb);
			uman_count(u, UMAN_tx_netpoll);
			goto sent;
		}
	}
	uman_may_sleep_on_locks();
	if (mode == UMAN_MODE_QDISC) {
		code = dev_queue_xmit(skb);
		/* Congestion is another frame's loss, but not at a device that is down: its discipline drops all and says the same. */
		if (code == NET_XMIT_CN)
			code = qdisc_tx_is_noop(u->lower) ? -ENETDOWN : 0;
		uman_count(u, UMAN_tx_qdisc);
	} else {
		code = dev_direct_xmit(skb, uman_queue(u));
		uman_count(u, UMAN_tx_direct);
	}
sent:
	rcu_read_unlock();
	if (!code)
		return 0;
	uman_count(u, UMAN_tx_failed);
	return code < 0 ? code : -ENOBUFS;
}

/* For modules (include/uman_kernel.h). */

bool uman_kernel_sends_anywhere(const struct net_device *dev)
{
	const struct uman *u = netdev_priv(dev);

	return READ_ONCE(u->mode) == UMAN_MODE_NETPOLL;
}
EXPORT_SYMBOL_GPL(uman_kernel_sends_anywhere);

int uman_kernel_send(struct net_device *dev, struct sk_buff *skb)
{
	return uman_send(netdev_priv(dev), skb, false);
}
EXPORT_SYMBOL_GPL(uman_kernel_send);

int uman_kernel_set_mode(struct net_device *dev, u8 mode)
{
	ASSERT_RTNL();
	return dev->netdev_ops == &uman_netdev_ops ? uman_set_mode(netdev_priv(dev), mode, NULL) : -ENODEV;
}
EXPORT_SYMBOL_GPL(uman_kernel_set_mode);
