//! Whether a server speaks TLS. One that does, and is asked without it, answers nothing, as one does that is away for a
//! moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use http::Uri;
use object_store::client::{HttpError, HttpErrorKind};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::outlook::causes;

/// It answers a greeting within this time, or is taken for one that does not speak TLS.
const LONGEST: Duration = Duration::from_secs(2);

/// The kinds of records that TLS answers with: an alert, or its own greeting.
const RECORDS: [u8; 2] = [21, 22];

/// What is known of a server that is asked without TLS.
#[derive(Debug, Default)]
pub struct Plain {
    has_answered: AtomicBool,
    is_tried: AtomicBool,
    speaks_tls: AtomicBool,
}

impl Plain {
    /// Notes that it answered.
    pub fn note_answer(&self) {
        self.has_answered.store(true, Relaxed);
    }

    /// Whether it answered.
    pub fn has_answered(&self) -> bool {
        self.has_answered.load(Relaxed)
    }

    /// Whether it speaks TLS, after a request failed. It is greeted once, if it has never answered.
    pub async fn speaks_tls(&self, asked: &Uri, cause: &HttpError) -> bool {
        let is_plain = asked.scheme_str() == Some("http") && !self.has_answered();
        // One that can't be reached speaks nothing.
        if is_plain && cause.kind() != HttpErrorKind::Connect && !self.is_tried.swap(true, Relaxed) {
            let greeted = tokio::time::timeout(LONGEST, greeted(asked)).await;
            self.speaks_tls.store(greeted.ok().flatten().unwrap_or(false), Relaxed);
        }
        is_plain && self.speaks_tls.load(Relaxed)
    }
}

/// Whether a server answered the greeting of TLS in another language.
pub fn speaks_no_tls(cause: &HttpError) -> bool {
    let no_record = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
    causes(cause).any(|found| found.downcast_ref() == Some(&no_record))
}

/// Whether a server answers a greeting as TLS does.
async fn greeted(asked: &Uri) -> Option<bool> {
    let host = asked.host()?.trim_matches(['[', ']']);
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).ok()?;
    let mut greeting = Vec::new();
    ClientConnection::new(Arc::new(config), name).ok()?.write_tls(&mut greeting).ok()?;
    let mut server = TcpStream::connect((host, asked.port_u16().unwrap_or(80))).await.ok()?;
    server.write_all(&greeting).await.ok()?;
    Some(RECORDS.contains(&server.read_u8().await.ok()?))
}
