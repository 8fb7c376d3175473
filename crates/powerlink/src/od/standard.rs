//! The objects of DS 301 that this crate's nodes use, with their defaults.

use super::Access::{Constant, ReadOnly, ReadWrite, WriteOnly};
use super::{Access, DataType, Entry, Object, ObjectDictionary, ObjectKind};
use std::collections::BTreeMap;

const U8: DataType = DataType::Unsigned(1);
const U16: DataType = DataType::Unsigned(2);
const U32: DataType = DataType::Unsigned(4);
const U64: DataType = DataType::Unsigned(8);
const BOOL: DataType = DataType::Boolean;
const TEXT: DataType = DataType::VisibleString;
const DOMAIN: DataType = DataType::Domain;
const IP: DataType = DataType::IpAddress;

/// Name, type, access, value.
type Sub = (&'static str, DataType, Access, u64);

enum Kind {
    Variable(Sub),
    /// Values from sub-index 1 on.
    Record(&'static [Sub]),
    /// The last sub-index, and the properties of all values.
    Array(u8, Sub),
    /// As `Array`, with a writable sub-index 0: the number of values in use.
    Counted(u8, Sub),
}
use Kind::{Array, Counted, Record, Variable};

type Row = (u16, &'static str, Kind);

const THRESHOLD: &[Sub] = &[
    ("CumulativeCnt_U32", U32, ReadWrite, 0),
    ("ThresholdCnt_U32", U32, ReadOnly, 0),
    ("Threshold_U32", U32, ReadWrite, 15),
];

/// Objects of both kinds of nodes.
const BOTH: &[Row] = &[
    (
        0x1000,
        "NMT_DeviceType_U32",
        Variable(("", U32, Constant, 0)),
    ),
    (
        0x1001,
        "ERR_ErrorRegister_U8",
        Variable(("", U8, ReadOnly, 0)),
    ),
    (
        0x1003,
        "ERR_History_ADOM",
        Counted(254, ("ErrorEntry_DOM", DOMAIN, ReadOnly, 0)),
    ),
    (
        0x1006,
        "NMT_CycleLen_U32",
        Variable(("", U32, ReadWrite, 0)),
    ),
    (
        0x1008,
        "NMT_ManufactDevName_VS",
        Variable(("", TEXT, Constant, 0)),
    ),
    (
        0x1009,
        "NMT_ManufactHwVers_VS",
        Variable(("", TEXT, Constant, 0)),
    ),
    (
        0x100a,
        "NMT_ManufactSwVers_VS",
        Variable(("", TEXT, Constant, 0)),
    ),
    (
        0x1016,
        "NMT_ConsumerHeartbeatTime_AU32",
        Array(254, ("HeartbeatDescription", U32, ReadWrite, 0)),
    ),
    (
        0x1018,
        "NMT_IdentityObject_REC",
        Record(&[
            ("VendorId_U32", U32, Constant, 0),
            ("ProductCode_U32", U32, Constant, 0),
            ("RevisionNo_U32", U32, Constant, 0),
            ("SerialNo_U32", U32, Constant, 0),
        ]),
    ),
    (
        0x1020,
        "CFM_VerifyConfiguration_REC",
        Record(&[
            ("ConfDate_U32", U32, ReadWrite, 0),
            ("ConfTime_U32", U32, ReadWrite, 0),
            ("ConfId_U32", U32, ReadWrite, 0),
        ]),
    ),
    (
        0x1030,
        "NMT_InterfaceGroup_0h_REC",
        Record(&[
            ("InterfaceIndex_U16", U16, ReadOnly, 1),
            ("InterfaceDescription_VSTR", TEXT, Constant, 0),
            ("InterfaceType_U8", U8, Constant, 6),
            ("InterfaceMtu_U16", U16, Constant, 1518),
            (
                "InterfacePhysAddress_OSTR",
                DataType::OctetString,
                Constant,
                0,
            ),
            ("InterfaceName_VSTR", TEXT, ReadOnly, 0),
            ("InterfaceOperStatus_U8", U8, ReadOnly, 1),
            ("InterfaceAdminState_U8", U8, ReadWrite, 1),
            ("Valid_BOOL", BOOL, ReadWrite, 1),
        ]),
    ),
    (
        0x1300,
        "SDO_SequLayerTimeout_U32",
        Variable(("", U32, ReadWrite, 15_000)),
    ),
    (
        0x1301,
        "SDO_CmdLayerTimeout_U32",
        Variable(("", U32, ReadWrite, 30_000)),
    ),
    (
        0x1302,
        "SDO_SequLayerNoAck_U32",
        Variable(("", U32, ReadWrite, 2)),
    ),
    (
        0x1c14,
        "DLL_CNLossOfSocTolerance_U32",
        Variable(("", U32, ReadWrite, 2_500_000)),
    ),
    (
        0x1e40,
        "NWL_IpAddrTable_0h_REC",
        Record(&[
            ("IfIndex_U16", U16, ReadOnly, 1),
            ("Addr_IPAD", IP, ReadOnly, 0),
            ("NetMask_IPAD", IP, ReadOnly, 0xffff_ff00),
            ("ReasmMaxSize_U16", U16, ReadOnly, 50_000),
            ("DefaultGateway_IPAD", IP, ReadWrite, 0),
        ]),
    ),
    (
        0x1f82,
        "NMT_FeatureFlags_U32",
        Variable(("", U32, Constant, 0)),
    ),
    (
        0x1f83,
        "NMT_EPLVersion_U8",
        Variable(("", U8, Constant, 0x20)),
    ),
    (
        0x1f8c,
        "NMT_CurrNMTState_U8",
        Variable(("", U8, ReadOnly, 0)),
    ),
    (
        0x1f93,
        "NMT_EPLNodeID_REC",
        Record(&[
            ("NodeID_U8", U8, ReadOnly, 0),
            ("NodeIDByHW_BOOL", BOOL, ReadOnly, 1),
            ("SWNodeID_U8", U8, ReadWrite, 0),
        ]),
    ),
    (
        0x1f98,
        "NMT_CycleTiming_REC",
        Record(&[
            ("IsochrTxMaxPayload_U16", U16, Constant, 1490),
            ("IsochrRxMaxPayload_U16", U16, Constant, 1490),
            ("PResMaxLatency_U32", U32, Constant, 50_000),
            ("PReqActPayloadLimit_U16", U16, ReadWrite, 36),
            ("PResActPayloadLimit_U16", U16, ReadWrite, 36),
            ("ASndMaxLatency_U32", U32, Constant, 50_000),
            ("MultiplCycleCnt_U8", U8, ReadWrite, 0),
            ("AsyncMTU_U16", U16, ReadWrite, 300),
            ("Prescaler_U16", U16, ReadWrite, 2),
            ("PResMode_U8", U8, ReadOnly, 0),
            ("PResTimeFirst_U32", U32, ReadOnly, 0),
            ("PResTimeSecond_U32", U32, ReadOnly, 0),
            ("SyncMNDelayFirst_U32", U32, ReadOnly, 0),
            ("SyncMNDelaySecond_U32", U32, ReadOnly, 0),
        ]),
    ),
    (
        0x1f99,
        "NMT_CNBasicEthernetTimeout_U32",
        Variable(("", U32, ReadWrite, 5_000_000)),
    ),
    (
        0x1f9a,
        "NMT_HostName_VSTR",
        Variable(("", TEXT, ReadWrite, 0)),
    ),
    (
        0x1f9b,
        "NMT_MultiplCycleAssign_AU8",
        Array(254, ("CycleNo", U8, ReadWrite, 0)),
    ),
    (
        0x1f9e,
        "NMT_ResetCmd_U8",
        Variable(("", U8, ReadWrite, 0xff)),
    ),
];

const CN: &[Row] = &[
    (0x1c0a, "DLL_CNCollision_REC", Record(THRESHOLD)),
    (0x1c0b, "DLL_CNLossSoC_REC", Record(THRESHOLD)),
    (0x1c0c, "DLL_CNLossSoA_REC", Record(THRESHOLD)),
    (0x1c0d, "DLL_CNLossPReq_REC", Record(THRESHOLD)),
    (0x1c0e, "DLL_CNSoCJitter_REC", Record(THRESHOLD)),
    (0x1c0f, "DLL_CNCRCError_REC", Record(THRESHOLD)),
    (
        0x1c10,
        "DLL_CNLossOfLinkCum_U32",
        Variable(("", U32, ReadWrite, 0)),
    ),
    (
        0x1c13,
        "DLL_CNSoCJitterRange_U32",
        Variable(("", U32, ReadWrite, 0)),
    ),
];

const MN: &[Row] = &[
    (0x1c00, "DLL_MNCRCError_REC", Record(THRESHOLD)),
    (0x1c01, "DLL_MNCollision_REC", Record(THRESHOLD)),
    (0x1c02, "DLL_MNCycTimeExceed_REC", Record(THRESHOLD)),
    (
        0x1c03,
        "DLL_MNLossOfLinkCum_U32",
        Variable(("", U32, ReadWrite, 0)),
    ),
    (
        0x1c04,
        "DLL_MNCNLatePResCumCnt_AU32",
        Array(254, ("CumCnt", U32, ReadWrite, 0)),
    ),
    (
        0x1c05,
        "DLL_MNCNLatePResThrCnt_AU32",
        Array(254, ("ThrCnt", U32, ReadOnly, 0)),
    ),
    (
        0x1c06,
        "DLL_MNCNLatePResThreshold_AU32",
        Array(254, ("Threshold", U32, ReadWrite, 15)),
    ),
    (
        0x1c07,
        "DLL_MNCNLossPResCumCnt_AU32",
        Array(254, ("CumCnt", U32, ReadWrite, 0)),
    ),
    (
        0x1c08,
        "DLL_MNCNLossPResThrCnt_AU32",
        Array(254, ("ThrCnt", U32, ReadOnly, 0)),
    ),
    (
        0x1c09,
        "DLL_MNCNLossPResThreshold_AU32",
        Array(254, ("Threshold", U32, ReadWrite, 15)),
    ),
    (
        0x1c12,
        "DLL_MNCycleSuspendNumber_U32",
        Variable(("", U32, ReadWrite, 1)),
    ),
    (
        0x1c15,
        "DLL_MNLossStatusResCumCnt_AU32",
        Array(254, ("CumCnt", U32, ReadWrite, 0)),
    ),
    (
        0x1c16,
        "DLL_MNLossStatusResThrCnt_AU32",
        Array(254, ("ThrCnt", U32, ReadOnly, 0)),
    ),
    (
        0x1c17,
        "DLL_MNLossStatusResThreshold_AU32",
        Array(254, ("Threshold", U32, ReadWrite, 15)),
    ),
    (
        0x1f22,
        "CFM_ConciseDcfList_ADOM",
        Array(254, ("CNConciseDcfData", DOMAIN, ReadWrite, 0)),
    ),
    (
        0x1f26,
        "CFM_ExpConfDateList_AU32",
        Array(254, ("CNConfigurationDate", U32, ReadWrite, 0)),
    ),
    (
        0x1f27,
        "CFM_ExpConfTimeList_AU32",
        Array(254, ("CNConfigurationTime", U32, ReadWrite, 0)),
    ),
    (0x1f80, "NMT_StartUp_U32", Variable(("", U32, ReadWrite, 0))),
    (
        0x1f81,
        "NMT_NodeAssignment_AU32",
        Array(254, ("NodeAssignment", U32, ReadWrite, 0)),
    ),
    (
        0x1f84,
        "NMT_MNDeviceTypeIdList_AU32",
        Array(254, ("CNDeviceTypeId", U32, ReadWrite, 0)),
    ),
    (
        0x1f85,
        "NMT_MNVendorIdList_AU32",
        Array(254, ("CNVendorId", U32, ReadWrite, 0)),
    ),
    (
        0x1f86,
        "NMT_MNProductCodeList_AU32",
        Array(254, ("CNProductCode", U32, ReadWrite, 0)),
    ),
    (
        0x1f87,
        "NMT_MNRevisionNoList_AU32",
        Array(254, ("CNRevisionNo", U32, ReadWrite, 0)),
    ),
    (
        0x1f88,
        "NMT_MNSerialNoList_AU32",
        Array(254, ("CNSerialNo", U32, ReadWrite, 0)),
    ),
    (
        0x1f89,
        "NMT_BootTime_REC",
        Record(&[
            ("MNWaitNotAct_U32", U32, ReadWrite, 1_000_000),
            ("MNTimeoutPreOp1_U32", U32, ReadWrite, 500_000),
            ("MNWaitPreOp1_U32", U32, ReadWrite, 0),
            ("MNTimeoutPreOp2_U32", U32, ReadWrite, 5_000_000),
            ("MNTimeoutReadyToOp_U32", U32, ReadWrite, 500_000),
            ("MNIdentificationTimeout_U32", U32, ReadWrite, 0),
            ("MNSoftwareTimeout_U32", U32, ReadWrite, 0),
            ("MNConfigurationTimeout_U32", U32, ReadWrite, 0),
            ("MNStartCNTimeout_U32", U32, ReadWrite, 500_000),
            ("MNSwitchOverPriority_U32", U32, ReadWrite, 0),
            ("MNSwitchOverDelay_U32", U32, ReadWrite, 0),
            ("MNSwitchOverCycleDivider_U32", U32, ReadWrite, 0),
        ]),
    ),
    (
        0x1f8a,
        "NMT_MNCycleTiming_REC",
        Record(&[
            ("WaitSoCPReq_U32", U32, ReadWrite, 0),
            ("AsyncSlotTimeout_U32", U32, ReadWrite, 100_000),
            ("ASndMaxNumber_U8", U8, ReadWrite, 1),
        ]),
    ),
    (
        0x1f8b,
        "NMT_MNPReqPayloadLimitList_AU16",
        Array(254, ("CNPReqPayload", U16, ReadWrite, 36)),
    ),
    (
        0x1f8d,
        "NMT_PResPayloadLimitList_AU16",
        Array(254, ("PResPayloadLimit", U16, ReadWrite, 36)),
    ),
    (
        0x1f8e,
        "NMT_MNNodeCurrState_AU8",
        Array(254, ("CurrState", U8, ReadOnly, 0)),
    ),
    (
        0x1f8f,
        "NMT_MNNodeExpState_AU8",
        Array(254, ("ExpState", U8, ReadOnly, 0)),
    ),
    (
        0x1f92,
        "NMT_MNCNPResTimeout_AU32",
        Array(254, ("CNResTimeout", U32, ReadWrite, 25_000)),
    ),
    (
        0x1f9f,
        "NMT_RequestCmd_REC",
        Record(&[
            ("Release_BOOL", BOOL, ReadWrite, 0),
            ("CmdID_U8", U8, ReadWrite, 0xff),
            ("CmdTarget_U8", U8, ReadWrite, 0),
            ("CmdData_DOM", DOMAIN, ReadWrite, 0),
        ]),
    ),
];

fn entry(object: &str, (name, data_type, access, value): Sub) -> Entry {
    let mut entry = Entry::new(if name.is_empty() { object } else { name }, data_type);
    entry.access = access;
    let bytes = value.to_le_bytes();
    if let Some(octets) = data_type.octets() {
        entry.value = bytes.get(..octets).unwrap_or_default().to_vec();
    }
    entry
}

fn object(name: &str, kind: &Kind) -> Object {
    let count = |access, number: usize| entry("", ("NumberOfEntries", U8, access, number as u64));
    let (kind, entries, others) = match *kind {
        Variable(sub) => (
            ObjectKind::Variable,
            BTreeMap::from([(0, entry(name, sub))]),
            None,
        ),
        Record(subs) => {
            let all = (1..).zip(subs).map(|(at, &sub)| (at, entry(name, sub)));
            let first = core::iter::once((0, count(Constant, subs.len())));
            (ObjectKind::Record, first.chain(all).collect(), None)
        }
        Array(last, sub) => (
            ObjectKind::Array,
            BTreeMap::from([(0, count(Constant, usize::from(last)))]),
            Some((last, entry(name, sub))),
        ),
        Counted(last, sub) => (
            ObjectKind::Array,
            BTreeMap::from([(0, count(ReadWrite, 0))]),
            Some((last, entry(name, sub))),
        ),
    };
    Object {
        name: name.into(),
        kind,
        entries,
        others,
    }
}

impl ObjectDictionary {
    /// Returns the objects of DS 301 for a controlled node: 8 transmit and 32 receive PDOs, all identity numbers zero. All
    /// transmit PDOs lie in the one PRes.
    #[must_use]
    pub fn controlled_node() -> Self {
        let mut dictionary = Self::with(CN);
        dictionary.insert_pdos(32, 8);
        // Isochronous; SDO over UDP and ASnd; commands for several nodes; dynamic mapping; multiplexed; reading and
        // writing several objects at once; several asynchronous frames in a cycle; PollResponse chaining.
        dictionary.set_number(0x1f82, 0, 0x0005_8267);
        dictionary
    }

    /// Returns the objects of DS 301 for a managing node: 256 transmit and 256 receive PDOs.
    #[must_use]
    pub fn managing_node() -> Self {
        let mut dictionary = Self::with(MN);
        dictionary.insert_pdos(256, 256);
        dictionary.set_number(0x1f82, 0, 0x0005_8347);
        dictionary.set_number(0x1f93, 1, u64::from(rtwire_wire::powerlink::node::MN));
        dictionary
    }

    fn with(rows: &[Row]) -> Self {
        let mut dictionary = Self::default();
        for (index, name, kind) in BOTH.iter().chain(rows) {
            dictionary.insert(*index, object(name, kind));
        }
        if let Ok(entry) = dictionary.entry_mut(0x1f9f, 1) {
            entry.access = WriteOnly;
        }
        dictionary
    }

    /// Inserts the objects by which parameters are stored and restored. Their values say that a command does it.
    pub(crate) fn insert_parameter_objects(&mut self) {
        const GROUPS: &[Sub] = &[
            ("AllParam_U32", U32, ReadWrite, 1),
            ("CommunicationParam_U32", U32, ReadWrite, 1),
            ("ApplicationParam_U32", U32, ReadWrite, 1),
            ("ManufacturerParam_04h_U32", U32, ReadWrite, 1),
        ];
        for (index, name) in [
            (0x1010, "NMT_StoreParam_REC"),
            (0x1011, "NMT_RestoreDefParam_REC"),
        ] {
            self.insert(index, object(name, &Record(GROUPS)));
        }
    }

    fn insert_pdos(&mut self, receive: u16, transmit: u16) {
        const PARAMETERS: &[Sub] = &[
            ("NodeID_U8", U8, ReadWrite, 0),
            ("MappingVersion_U8", U8, ReadWrite, 0),
        ];
        for (first, count, what) in [(0x1400, receive, "Rx"), (0x1800, transmit, "Tx")] {
            for n in 0..count {
                let name = format!("PDO_{what}CommParam_{n:02X}h_REC");
                self.insert(first + n, object(&name, &Record(PARAMETERS)));
                let name = format!("PDO_{what}MappParam_{n:02X}h_AU64");
                let mapping = ("ObjectMapping", U64, ReadWrite, 0);
                self.insert(first + 0x200 + n, object(&name, &Counted(254, mapping)));
            }
        }
    }
}
