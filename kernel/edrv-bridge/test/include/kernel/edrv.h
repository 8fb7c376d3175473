/* SPDX-License-Identifier: GPL-2.0 */
/* The interface of an Ethernet driver of openPOWERLINK 2: what its stack calls and passes, for a build without its tree. */
#ifndef EDRV_TEST_EDRV_H
#define EDRV_TEST_EDRV_H

#include <common/oplkinc.h>

#define EDRV_FILTER_CHANGE_VALUE 1
#define EDRV_FILTER_CHANGE_MASK 2
#define EDRV_FILTER_CHANGE_STATE 4
#define EDRV_FILTER_CHANGE_AUTO_RESPONSE 8

typedef struct sEdrvTxBuffer tEdrvTxBuffer;
typedef struct sEdrvRxBuffer tEdrvRxBuffer;

typedef UINT32 tEdrvReleaseRxBuffer;
enum { kEdrvReleaseRxBufferImmediately = 0 };
typedef UINT32 tEdrvBufferInFrame;
enum { kEdrvBufferLastInFrame = 4 };

typedef tEdrvReleaseRxBuffer (*tEdrvRxHandler)(tEdrvRxBuffer *pRxBuffer_p);
typedef void (*tEdrvTxHandler)(tEdrvTxBuffer *pTxBuffer_p);

struct sEdrvTxBuffer {
	size_t txFrameSize;
	UINT32 timeOffsetNs;
	BOOL fLaunchTimeValid;
	union {
		UINT32 ticks;
		UINT64 nanoseconds;
	} launchTime;
	tEdrvTxHandler pfnTxHandler;
	union {
		UINT value;
		void *pArg;
	} txBufferNumber;
	void *pBuffer;
	size_t maxBufferSize;
};

struct sEdrvRxBuffer {
	tEdrvBufferInFrame bufferInFrame;
	size_t rxFrameSize;
	void *pBuffer;
	void *pRxTimeStamp;
};

typedef struct {
	UINT8 aMacAddr[6];
	tEdrvRxHandler pfnRxHandler;
	const char *pDevName;
	UINT devNum;
} tEdrvInitParam;

typedef struct {
	UINT handle;
	BOOL fEnable;
	UINT8 aFilterValue[22];
	UINT8 aFilterMask[22];
	tEdrvTxBuffer *pTxBuffer;
} tEdrvFilter;

tOplkError edrv_init(const tEdrvInitParam *pEdrvInitParam_p);
tOplkError edrv_exit(void);
const UINT8 *edrv_getMacAddr(void);
tOplkError edrv_setRxMulticastMacAddr(const UINT8 *pMacAddr_p);
tOplkError edrv_clearRxMulticastMacAddr(const UINT8 *pMacAddr_p);
tOplkError edrv_changeRxFilter(tEdrvFilter *pFilter_p, UINT count_p, UINT entryChanged_p, UINT changeFlags_p);
tOplkError edrv_allocTxBuffer(tEdrvTxBuffer *pBuffer_p);
tOplkError edrv_freeTxBuffer(tEdrvTxBuffer *pBuffer_p);
tOplkError edrv_sendTxBuffer(tEdrvTxBuffer *pBuffer_p);
tOplkError edrv_updateTxBuffer(tEdrvTxBuffer *pBuffer_p);
int edrv_getDiagnostics(char *pBuffer_p, size_t size_p);

#endif
