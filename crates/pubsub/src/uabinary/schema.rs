//! The structures of a configuration file: names, fields and types, in the order of their bytes.
//!
//! The source is the type dictionary of OPC 10000-5 and OPC 10000-14 (version 1.05); a structure begins with the fields of the
//! one that it is a subtype of.

/// A field's type.
#[derive(Debug)]
pub(super) enum Kind {
    Boolean,
    Byte,
    UInt16,
    UInt32,
    /// Also enumerations.
    Int32,
    Int64,
    Double,
    String,
    ByteString,
    Guid,
    NodeId,
    QualifiedName,
    LocalizedText,
    Variant,
    /// A Variant that holds one ExtensionObject.
    Body,
    Object,
    Record(&'static Structure),
    List(&'static Self),
}

/// A structure of the standard.
#[derive(Debug)]
pub struct Structure {
    pub(super) name: &'static str,
    pub(super) fields: &'static [(&'static str, Kind)],
    /// The number of the node `…_Encoding_DefaultBinary`, for those that are the content of an ExtensionObject; else 0.
    pub(super) encoding: u16,
}

impl Structure {
    /// The structure's name in the standard.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Finds a structure by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.into_iter().find(|structure| structure.name == name)
    }

    /// Finds the content of an ExtensionObject by the number of its encoding in namespace 0.
    pub(super) fn encoded_as(id: u32) -> Option<&'static Self> {
        let mut all = ALL.into_iter();
        all.find(|structure| structure.encoding != 0 && u32::from(structure.encoding) == id)
    }
}

// Two structures are the same if they are the same entry of the table.
impl PartialEq for Structure {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for Structure {}

impl Kind {
    /// Returns the fewest bytes of a value.
    pub(super) fn least(&self) -> usize {
        match self {
            Self::Boolean | Self::Byte | Self::LocalizedText | Self::Variant => 1,
            Self::UInt16 | Self::NodeId | Self::Body => 2,
            Self::Object => 3,
            Self::UInt32 | Self::Int32 | Self::String | Self::ByteString | Self::List(_) => 4,
            Self::QualifiedName => 6,
            Self::Int64 | Self::Double => 8,
            Self::Guid => 16,
            Self::Record(record) => record.fields.iter().map(|(_, kind)| kind.least()).sum(),
        }
    }
}

macro_rules! structures {
    ($($item:ident: $name:literal $(as $encoding:literal)? { $($field:literal: $kind:expr,)* })*) => {
        $(
            pub(super) static $item: Structure = Structure {
                name: $name,
                fields: &[$(($field, $kind)),*],
                encoding: 0 $(+ $encoding)?,
            };
        )*

        /// Every structure.
        static ALL: [&Structure; [$($name),*].len()] = [$(&$item),*];
    };
}

use Kind::{
    Body, Boolean, Byte, ByteString, Double, Guid, Int32, Int64, List, LocalizedText, NodeId,
    Object, QualifiedName, Record, String, UInt16, UInt32, Variant,
};

structures! {
    KEY_VALUE: "KeyValuePair" {
        "Key": QualifiedName,
        "Value": Variant,
    }
    STRUCTURE_FIELD: "StructureField" {
        "Name": String,
        "Description": LocalizedText,
        "DataType": NodeId,
        "ValueRank": Int32,
        "ArrayDimensions": List(&UInt32),
        "MaxStringLength": UInt32,
        "IsOptional": Boolean,
    }
    STRUCTURE_DEFINITION: "StructureDefinition" {
        "DefaultEncodingId": NodeId,
        "BaseDataType": NodeId,
        "StructureType": Int32,
        "Fields": List(&Record(&STRUCTURE_FIELD)),
    }
    STRUCTURE_DESCRIPTION: "StructureDescription" {
        "DataTypeId": NodeId,
        "Name": QualifiedName,
        "StructureDefinition": Record(&STRUCTURE_DEFINITION),
    }
    ENUM_FIELD: "EnumField" {
        "Value": Int64,
        "DisplayName": LocalizedText,
        "Description": LocalizedText,
        "Name": String,
    }
    ENUM_DEFINITION: "EnumDefinition" {
        "Fields": List(&Record(&ENUM_FIELD)),
    }
    ENUM_DESCRIPTION: "EnumDescription" {
        "DataTypeId": NodeId,
        "Name": QualifiedName,
        "EnumDefinition": Record(&ENUM_DEFINITION),
        "BuiltInType": Byte,
    }
    SIMPLE_TYPE_DESCRIPTION: "SimpleTypeDescription" {
        "DataTypeId": NodeId,
        "Name": QualifiedName,
        "BaseDataType": NodeId,
        "BuiltInType": Byte,
    }
    FILE: "UABinaryFileDataType" as 15422 {
        "Namespaces": List(&String),
        "StructureDataTypes": List(&Record(&STRUCTURE_DESCRIPTION)),
        "EnumDataTypes": List(&Record(&ENUM_DESCRIPTION)),
        "SimpleDataTypes": List(&Record(&SIMPLE_TYPE_DESCRIPTION)),
        "SchemaLocation": String,
        "FileHeader": List(&Record(&KEY_VALUE)),
        "Body": Body,
    }
    VERSION: "ConfigurationVersionDataType" {
        "MajorVersion": UInt32,
        "MinorVersion": UInt32,
    }
    FIELD: "FieldMetaData" {
        "Name": String,
        "Description": LocalizedText,
        "FieldFlags": UInt16,
        "BuiltInType": Byte,
        "DataType": NodeId,
        "ValueRank": Int32,
        "ArrayDimensions": List(&UInt32),
        "MaxStringLength": UInt32,
        "DataSetFieldId": Guid,
        "Properties": List(&Record(&KEY_VALUE)),
    }
    META_DATA: "DataSetMetaDataType" {
        "Namespaces": List(&String),
        "StructureDataTypes": List(&Record(&STRUCTURE_DESCRIPTION)),
        "EnumDataTypes": List(&Record(&ENUM_DESCRIPTION)),
        "SimpleDataTypes": List(&Record(&SIMPLE_TYPE_DESCRIPTION)),
        "Name": String,
        "Description": LocalizedText,
        "Fields": List(&Record(&FIELD)),
        "DataSetClassId": Guid,
        "ConfigurationVersion": Record(&VERSION),
    }
    PUBLISHED_VARIABLE: "PublishedVariableDataType" {
        "PublishedVariable": NodeId,
        "AttributeId": UInt32,
        "SamplingIntervalHint": Double,
        "DeadbandType": UInt32,
        "DeadbandValue": Double,
        "IndexRange": String,
        "SubstituteValue": Variant,
        "MetaDataProperties": List(&QualifiedName),
    }
    PUBLISHED_ITEMS: "PublishedDataItemsDataType" as 15679 {
        "PublishedData": List(&Record(&PUBLISHED_VARIABLE)),
    }
    PUBLISHED_DATA_SET: "PublishedDataSetDataType" {
        "Name": String,
        "DataSetFolder": List(&String),
        "DataSetMetaData": Record(&META_DATA),
        "ExtensionFields": List(&Record(&KEY_VALUE)),
        "DataSetSource": Object,
    }
    USER_TOKEN: "UserTokenPolicy" {
        "PolicyId": String,
        "TokenType": Int32,
        "IssuedTokenType": String,
        "IssuerEndpointUrl": String,
        "SecurityPolicyUri": String,
    }
    APPLICATION: "ApplicationDescription" {
        "ApplicationUri": String,
        "ProductUri": String,
        "ApplicationName": LocalizedText,
        "ApplicationType": Int32,
        "GatewayServerUri": String,
        "DiscoveryProfileUri": String,
        "DiscoveryUrls": List(&String),
    }
    ENDPOINT: "EndpointDescription" {
        "EndpointUrl": String,
        "Server": Record(&APPLICATION),
        "ServerCertificate": ByteString,
        "SecurityMode": Int32,
        "SecurityPolicyUri": String,
        "UserIdentityTokens": List(&Record(&USER_TOKEN)),
        "TransportProfileUri": String,
        "SecurityLevel": Byte,
    }
    ADDRESS: "NetworkAddressUrlDataType" as 21152 {
        "NetworkInterface": String,
        "Url": String,
    }
    DATAGRAM_CONNECTION: "DatagramConnectionTransportDataType" as 17468 {
        "DiscoveryAddress": Object,
    }
    DATAGRAM_CONNECTION_2: "DatagramConnectionTransport2DataType" as 23864 {
        "DiscoveryAddress": Object,
        "DiscoveryAnnounceRate": UInt32,
        "DiscoveryMaxMessageSize": UInt32,
        "QosCategory": String,
        "DatagramQos": List(&Object),
    }
    DATAGRAM_GROUP: "DatagramWriterGroupTransportDataType" as 21155 {
        "MessageRepeatCount": Byte,
        "MessageRepeatDelay": Double,
    }
    DATAGRAM_GROUP_2: "DatagramWriterGroupTransport2DataType" as 23865 {
        "MessageRepeatCount": Byte,
        "MessageRepeatDelay": Double,
        "Address": Object,
        "QosCategory": String,
        "DatagramQos": List(&Object),
        "DiscoveryAnnounceRate": UInt32,
        "Topic": String,
    }
    UADP_GROUP: "UadpWriterGroupMessageDataType" as 15715 {
        "GroupVersion": UInt32,
        "DataSetOrdering": Int32,
        "NetworkMessageContentMask": UInt32,
        "SamplingOffset": Double,
        "PublishingOffset": List(&Double),
    }
    UADP_WRITER: "UadpDataSetWriterMessageDataType" as 15717 {
        "DataSetMessageContentMask": UInt32,
        "ConfiguredSize": UInt16,
        "NetworkMessageNumber": UInt16,
        "DataSetOffset": UInt16,
    }
    UADP_READER: "UadpDataSetReaderMessageDataType" as 15718 {
        "GroupVersion": UInt32,
        "NetworkMessageNumber": UInt16,
        "DataSetOffset": UInt16,
        "DataSetClassId": Guid,
        "NetworkMessageContentMask": UInt32,
        "DataSetMessageContentMask": UInt32,
        "PublishingInterval": Double,
        "ReceiveOffset": Double,
        "ProcessingOffset": Double,
    }
    FIELD_TARGET: "FieldTargetDataType" {
        "DataSetFieldId": Guid,
        "ReceiverIndexRange": String,
        "TargetNodeId": NodeId,
        "AttributeId": UInt32,
        "WriteIndexRange": String,
        "OverrideValueHandling": Int32,
        "OverrideValue": Variant,
    }
    TARGETS: "TargetVariablesDataType" as 15712 {
        "TargetVariables": List(&Record(&FIELD_TARGET)),
    }
    WRITER: "DataSetWriterDataType" {
        "Name": String,
        "Enabled": Boolean,
        "DataSetWriterId": UInt16,
        "DataSetFieldContentMask": UInt32,
        "KeyFrameCount": UInt32,
        "DataSetName": String,
        "DataSetWriterProperties": List(&Record(&KEY_VALUE)),
        "TransportSettings": Object,
        "MessageSettings": Object,
    }
    WRITER_GROUP: "WriterGroupDataType" {
        "Name": String,
        "Enabled": Boolean,
        "SecurityMode": Int32,
        "SecurityGroupId": String,
        "SecurityKeyServices": List(&Record(&ENDPOINT)),
        "MaxNetworkMessageSize": UInt32,
        "GroupProperties": List(&Record(&KEY_VALUE)),
        "WriterGroupId": UInt16,
        "PublishingInterval": Double,
        "KeepAliveTime": Double,
        "Priority": Byte,
        "LocaleIds": List(&String),
        "HeaderLayoutUri": String,
        "TransportSettings": Object,
        "MessageSettings": Object,
        "DataSetWriters": List(&Record(&WRITER)),
    }
    READER: "DataSetReaderDataType" {
        "Name": String,
        "Enabled": Boolean,
        "PublisherId": Variant,
        "WriterGroupId": UInt16,
        "DataSetWriterId": UInt16,
        "DataSetMetaData": Record(&META_DATA),
        "DataSetFieldContentMask": UInt32,
        "MessageReceiveTimeout": Double,
        "KeyFrameCount": UInt32,
        "HeaderLayoutUri": String,
        "SecurityMode": Int32,
        "SecurityGroupId": String,
        "SecurityKeyServices": List(&Record(&ENDPOINT)),
        "DataSetReaderProperties": List(&Record(&KEY_VALUE)),
        "TransportSettings": Object,
        "MessageSettings": Object,
        "SubscribedDataSet": Object,
    }
    READER_GROUP: "ReaderGroupDataType" {
        "Name": String,
        "Enabled": Boolean,
        "SecurityMode": Int32,
        "SecurityGroupId": String,
        "SecurityKeyServices": List(&Record(&ENDPOINT)),
        "MaxNetworkMessageSize": UInt32,
        "GroupProperties": List(&Record(&KEY_VALUE)),
        "TransportSettings": Object,
        "MessageSettings": Object,
        "DataSetReaders": List(&Record(&READER)),
    }
    CONNECTION: "PubSubConnectionDataType" {
        "Name": String,
        "Enabled": Boolean,
        "PublisherId": Variant,
        "TransportProfileUri": String,
        "Address": Object,
        "ConnectionProperties": List(&Record(&KEY_VALUE)),
        "TransportSettings": Object,
        "WriterGroups": List(&Record(&WRITER_GROUP)),
        "ReaderGroups": List(&Record(&READER_GROUP)),
    }
    CONFIGURATION: "PubSubConfigurationDataType" as 21154 {
        "PublishedDataSets": List(&Record(&PUBLISHED_DATA_SET)),
        "Connections": List(&Record(&CONNECTION)),
        "Enabled": Boolean,
    }
    STANDALONE: "StandaloneSubscribedDataSetDataType" {
        "Name": String,
        "DataSetFolder": List(&String),
        "DataSetMetaData": Record(&META_DATA),
        "SubscribedDataSet": Object,
    }
    ROLE: "RolePermissionType" {
        "RoleId": NodeId,
        "Permissions": UInt32,
    }
    SECURITY_GROUP: "SecurityGroupDataType" {
        "Name": String,
        "SecurityGroupFolder": List(&String),
        "KeyLifetime": Double,
        "SecurityPolicyUri": String,
        "MaxFutureKeyCount": UInt32,
        "MaxPastKeyCount": UInt32,
        "SecurityGroupId": String,
        "RolePermissions": List(&Record(&ROLE)),
        "GroupProperties": List(&Record(&KEY_VALUE)),
    }
    PUSH_TARGET: "PubSubKeyPushTargetDataType" {
        "ApplicationUri": String,
        "PushTargetFolder": List(&String),
        "EndpointUrl": String,
        "SecurityPolicyUri": String,
        "UserTokenType": Record(&USER_TOKEN),
        "RequestedKeyCount": UInt16,
        "RetryInterval": Double,
        "PushTargetProperties": List(&Record(&KEY_VALUE)),
        "SecurityGroups": List(&String),
    }
    CONFIGURATION_2: "PubSubConfiguration2DataType" as 23854 {
        "PublishedDataSets": List(&Record(&PUBLISHED_DATA_SET)),
        "Connections": List(&Record(&CONNECTION)),
        "Enabled": Boolean,
        "SubscribedDataSets": List(&Record(&STANDALONE)),
        "DataSetClasses": List(&Record(&META_DATA)),
        "DefaultSecurityKeyServices": List(&Record(&ENDPOINT)),
        "SecurityGroups": List(&Record(&SECURITY_GROUP)),
        "PubSubKeyPushTargets": List(&Record(&PUSH_TARGET)),
        "ConfigurationVersion": UInt32,
        "ConfigurationProperties": List(&Record(&KEY_VALUE)),
    }
}
