/* SPDX-License-Identifier: GPL-2.0 */
/* The types that openPOWERLINK gives a driver: names and numbers of its interface only, for a build without its tree. */
#ifndef EDRV_TEST_OPLKINC_H
#define EDRV_TEST_OPLKINC_H

#include <linux/types.h>

typedef u8 UINT8;
typedef u32 UINT32;
typedef u64 UINT64;
typedef unsigned int UINT;
typedef unsigned char BOOL;

#define TRUE 1
#define FALSE 0

#define CONFIG_DLL_DEFERRED_RXFRAME_RELEASE_SYNC FALSE
#define CONFIG_DLL_DEFERRED_RXFRAME_RELEASE_ASYNC FALSE
#define CONFIG_EDRV_AUTO_RESPONSE TRUE
#define CONFIG_EDRV_USE_DIAGNOSTICS TRUE

typedef enum {
	kErrorOk = 0x00,
	kErrorInvalidOperation = 0x06,
	kErrorNoResource = 0x08,
	kErrorEdrvNoFreeTxDesc = 0x11,
	kErrorEdrvInit = 0x13,
	kErrorEdrvNoFreeBufEntry = 0x14,
	kErrorEdrvBufNotExisting = 0x15,
	kErrorEdrvInvalidParam = 0x1c,
} tOplkError;

#endif
