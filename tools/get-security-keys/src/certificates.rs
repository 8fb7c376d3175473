//! The certificates of one question: our own with its key, and the service's, which is the only one trusted.

use crate::{Fault, Question};
use opcua_crypto::{CertificateStore, X509};
use opcua_types::ByteString;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder as the client wants it; it is removed with this value.
pub(crate) struct Store {
    folder: TempDir,
    pinned: Option<ByteString>,
    own: Option<(PathBuf, PathBuf)>,
}

impl Store {
    /// Reads the certificates. A channel without security needs none.
    pub(crate) fn new(question: &Question, secured: bool) -> Result<Self, Fault> {
        let failed = |error: std::io::Error| Fault::service(error.to_string());
        let folder = TempDir::new().map_err(failed)?;
        let mut store = Self {
            folder,
            pinned: None,
            own: None,
        };
        if !secured {
            return Ok(store);
        }
        let (Some(server), Some(own), Some(key)) = (
            &question.server_certificate,
            &question.certificate,
            &question.private_key,
        ) else {
            return Err(Fault::settings(
                "the channel needs `server-certificate`, `certificate` and `private-key`",
            ));
        };
        let server = read(server)?;
        read(own)?;
        CertificateStore::read_pkey(key)
            .map_err(|_| Fault::settings(format!("`{}` is no RSA key in PEM", key.display())))?;
        let trusted = store.folder.path().join("trusted");
        fs::create_dir(&trusted).map_err(failed)?;
        let name = CertificateStore::cert_file_name(&server);
        let pinned = server.as_byte_string();
        fs::write(trusted.join(name), pinned.as_ref()).map_err(failed)?;
        let absolute = |path: &Path| std::path::absolute(path).map_err(failed);
        store.own = Some((absolute(own)?, absolute(key)?));
        store.pinned = Some(pinned);
        Ok(store)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The service's certificate, DER.
    pub(crate) fn pinned(&self) -> Option<ByteString> {
        self.pinned.clone()
    }

    /// The files of our certificate and its key.
    pub(crate) fn own(&self) -> Option<&(PathBuf, PathBuf)> {
        self.own.as_ref()
    }
}

fn read(path: &Path) -> Result<X509, Fault> {
    CertificateStore::read_cert(path).map_err(|why| {
        Fault::settings(format!("{why}; a certificate is a file `*.der` or `*.pem`"))
    })
}
