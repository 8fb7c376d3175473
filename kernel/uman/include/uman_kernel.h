/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What another kernel module may do with a uman device: the attachment that /dev/uman gives a program, and sending. The module holds
 * a reference to the device, and lets go of it at NETDEV_UNREGISTER.
 */
#ifndef UMAN_KERNEL_H
#define UMAN_KERNEL_H

#include <linux/netdevice.h>

#include "uman_abi.h"

struct uman_program;

/*
 * Attaches to a uman device; under RTNL. `layout` is filled in as UMAN_IOC_ATTACH does. Errors: -ENODEV no uman device, -EBUSY somebody
 * else is attached, -EINVAL, -EPROTO, -ENOMEM.
 */
struct uman_program *uman_kernel_attach(struct net_device *dev, struct uman_attach *layout);

/* The shared memory, laid out as ABI.md says, until uman_kernel_detach(). */
void *uman_kernel_memory(const struct uman_program *p);

/* As UMAN_IOC_REPLY and UMAN_IOC_STOP; they may sleep. -ENODEV: the device is gone. */
int uman_kernel_reply(struct uman_program *p, const struct uman_reply *request);
int uman_kernel_stop(struct uman_program *p, const struct uman_stop *request);

/* Ends all that was set up; takes RTNL. */
void uman_kernel_detach(struct uman_program *p);

/* True in mode netpoll: then uman_kernel_send() may be called with interrupts off. */
bool uman_kernel_sends_anywhere(const struct net_device *dev);

/* Hands a frame with its Ethernet header to the lower device, which becomes its owner. 0, or a negative error: dropped. */
int uman_kernel_send(struct net_device *dev, struct sk_buff *skb);

/* As the attribute IFLA_UMAN_MODE; under RTNL. */
int uman_kernel_set_mode(struct net_device *dev, u8 mode);

#endif
