// SPDX-License-Identifier: GPL-2.0
/*
 * Drives the driver interface as openPOWERLINK's kernel stack does: frames sent with a lock held and interrupts off, from a timer's
 * hard interrupt and from the receive handler; handlers that take that lock. A word written to the parameter `command` starts each
 * part; the parameter `said` tells what was seen here. Raw sockets at the cable's other end judge from outside.
 */
#include <kernel/edrv.h>

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/version.h>

#define CYCLE 0x01
#define QUESTION 0x03
#define ANSWER 0x04
#define SEQUENCE 20
#define BODY 24
#define SIZE 200
#define NODE 5
#define WAIT (5 * HZ)

/* The stack's lock. */
static DEFINE_SPINLOCK(lock);
static struct task_struct *inside;	/* who is in a call of the driver */

static tEdrvTxBuffer soc, response, automatic;
static tEdrvFilter filters[2];
static DECLARE_COMPLETION(sent);
static struct hrtimer timer;
static DECLARE_COMPLETION(timer_done);
static int timer_left, number;
static ktime_t period;
static bool answering;

static atomic_t confirmed, nested, received, refused, answered;

static void frame(tEdrvTxBuffer *buffer, u8 message, u32 sequence)
{
	static const u8 to[ETH_ALEN] = { 0x02, 0, 0, 0, 0, 1 };
	u8 *data = buffer->pBuffer;

	memcpy(data, to, ETH_ALEN);
	memcpy(data + 6, edrv_getMacAddr(), ETH_ALEN);
	data[12] = 0x88;
	data[13] = 0xab;
	data[14] = message;
	data[15] = NODE;
	memset(data + 16, 0, 4);
	memcpy(data + SEQUENCE, &sequence, 4);
	memset(data + BODY, sequence & 0xff, SIZE - BODY);
	buffer->txFrameSize = SIZE;
}

/* Each call of the driver as the stack makes it; a handler that is called inside of it would wait for the lock for ever. */
static bool send(tEdrvTxBuffer *buffer)
{
	unsigned long flags;
	tOplkError error;

	spin_lock_irqsave(&lock, flags);
	inside = current;
	error = edrv_sendTxBuffer(buffer);
	inside = NULL;
	spin_unlock_irqrestore(&lock, flags);
	if (error != kErrorOk)
		atomic_inc(&refused);
	return error == kErrorOk;
}

static void handler(tEdrvTxBuffer *buffer)
{
	unsigned long flags;

	if (inside == current) {
		atomic_inc(&nested);
		return;
	}
	spin_lock_irqsave(&lock, flags);
	atomic_inc(&confirmed);
	spin_unlock_irqrestore(&lock, flags);
	if (buffer == &soc)
		complete(&sent);
}

static tEdrvReleaseRxBuffer take(tEdrvRxBuffer *buffer)
{
	const u8 *data = buffer->pBuffer;
	u32 sequence;

	atomic_inc(&received);
	if (answering && buffer->rxFrameSize >= SIZE && data[14] == QUESTION && data[15] == NODE) {
		memcpy(&sequence, data + SEQUENCE, 4);
		frame(&response, ANSWER, sequence);
		if (send(&response))
			atomic_inc(&answered);
	}
	return kEdrvReleaseRxBufferImmediately;
}

/* In the hard interrupt no sleeping lock may be taken: the call itself is what is tried. */
static enum hrtimer_restart tick(struct hrtimer *t)
{
	frame(&soc, CYCLE, ++number);
	if (edrv_sendTxBuffer(&soc) != kErrorOk)
		atomic_inc(&refused);
	if (--timer_left <= 0) {
		complete(&timer_done);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(t, period);
	return HRTIMER_RESTART;
}

static int cyclic(int count, int period_us)
{
	if (count < 1 || period_us < 200)
		return -EINVAL;
	timer_left = count;
	period = ns_to_ktime((u64)period_us * NSEC_PER_USEC);
	reinit_completion(&timer_done);
	hrtimer_start(&timer, period, HRTIMER_MODE_REL_HARD);
	wait_for_completion(&timer_done);
	return 0;
}

static int burst(int count)
{
	while (count-- > 0) {
		reinit_completion(&sent);
		frame(&soc, CYCLE, ++number);
		if (!send(&soc))
			return -EIO;
		if (!wait_for_completion_timeout(&sent, WAIT))
			return -ETIMEDOUT;
	}
	return 0;
}

/* The driver answers questions to the node by itself. */
static int automatic_set(bool on)
{
	static const u8 wanted[] = { 0x88, 0xab, QUESTION, NODE };

	frame(&automatic, ANSWER, 7);
	memset(filters, 0, sizeof(filters));
	filters[1].fEnable = on;
	memcpy(filters[1].aFilterValue + 12, wanted, sizeof(wanted));
	memset(filters[1].aFilterMask + 12, 0xff, sizeof(wanted));
	filters[1].pTxBuffer = &automatic;
	return edrv_changeRxFilter(filters, ARRAY_SIZE(filters), ARRAY_SIZE(filters), 0) == kErrorOk ? 0 : -EIO;
}

/* What a driver has to refuse. */
static int bad(void)
{
	tEdrvTxBuffer none = { .txFrameSize = SIZE, .maxBufferSize = SIZE };
	tEdrvTxBuffer large = { .maxBufferSize = 2000 };
	static const u8 unicast[ETH_ALEN] = { 2, 0, 0, 0, 0, 9 };
	int wrong = 0;

	wrong += edrv_sendTxBuffer(&none) == kErrorOk;
	wrong += edrv_allocTxBuffer(&large) == kErrorOk;
	wrong += edrv_updateTxBuffer(&soc) == kErrorOk;
	wrong += edrv_setRxMulticastMacAddr(unicast) == kErrorOk;
	soc.txFrameSize = 13;
	wrong += edrv_sendTxBuffer(&soc) == kErrorOk;
	soc.txFrameSize = 1600;
	wrong += edrv_sendTxBuffer(&soc) == kErrorOk;
	/* The half of an address is no filter of uman's. */
	automatic_set(true);
	filters[1].aFilterMask[0] = 0xff;
	wrong += edrv_changeRxFilter(filters, ARRAY_SIZE(filters), 1, EDRV_FILTER_CHANGE_MASK) == kErrorOk;
	wrong += edrv_changeRxFilter(filters, 1000, 0, 0) == kErrorOk;
	automatic_set(false);
	return wrong ? -EIO : 0;
}

static int command_set(const char *text, const struct kernel_param *unused)
{
	static const u8 group[ETH_ALEN] = { 0x01, 0x11, 0x1e, 0, 0, 1 };
	int count, period_us;

	if (sscanf(text, "send %d", &count) == 1)
		return burst(count);
	if (sscanf(text, "cyclic %d %d", &count, &period_us) == 2)
		return cyclic(count, period_us);
	answering = sysfs_streq(text, "answer");
	if (answering)
		return 0;
	if (sysfs_streq(text, "automatic"))
		return automatic_set(true);
	if (sysfs_streq(text, "silent"))
		return automatic_set(false);
	if (sysfs_streq(text, "update"))
		return edrv_updateTxBuffer(&automatic) == kErrorOk ? 0 : -EIO;
	if (sysfs_streq(text, "join"))
		return edrv_setRxMulticastMacAddr(group) == kErrorOk ? 0 : -EIO;
	if (sysfs_streq(text, "part"))
		return edrv_clearRxMulticastMacAddr(group) == kErrorOk ? 0 : -EIO;
	if (sysfs_streq(text, "bad"))
		return bad();
	return -EINVAL;
}

static int said_get(char *to, const struct kernel_param *unused)
{
	char driver[200];

	edrv_getDiagnostics(driver, sizeof(driver));
	return scnprintf(to, PAGE_SIZE, "confirmed=%d nested=%d received=%d refused=%d answered=%d\n%s", atomic_read(&confirmed),
			 atomic_read(&nested), atomic_read(&received), atomic_read(&refused), atomic_read(&answered), driver);
}

static const struct kernel_param_ops command_ops = { .set = command_set };
module_param_cb(command, &command_ops, NULL, 0200);
static const struct kernel_param_ops said_ops = { .get = said_get };
module_param_cb(said, &said_ops, NULL, 0400);

static void buffers_free(void)
{
	edrv_freeTxBuffer(&soc);
	edrv_freeTxBuffer(&response);
	edrv_freeTxBuffer(&automatic);
}

static int __init harness_init(void)
{
	tEdrvInitParam param = { .pfnRxHandler = take };
	tEdrvTxBuffer *all[] = { &soc, &response, &automatic };
	unsigned int i;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&timer, tick, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
#else
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	timer.function = tick;
#endif
	if (edrv_init(&param) != kErrorOk)
		return -ENODEV;
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		all[i]->maxBufferSize = ETH_FRAME_LEN;
		all[i]->pfnTxHandler = handler;
		if (edrv_allocTxBuffer(all[i]) != kErrorOk) {
			edrv_exit();
			buffers_free();
			return -ENOMEM;
		}
	}
	return 0;
}

static void __exit harness_exit(void)
{
	hrtimer_cancel(&timer);
	edrv_exit();
	buffers_free();
}

module_init(harness_init);
module_exit(harness_exit);
MODULE_DESCRIPTION("Test of the openPOWERLINK driver upon uman");
MODULE_LICENSE("GPL");
