//! What to write for a name or a value of `storage_options` that no store has.

use std::collections::BTreeMap;

use fastresume::error::{nearest, quoted};
use fastresume::{Error, Result};
use http::HeaderValue;
use reqwest::Url;

use crate::address::StoreKind;
use crate::outlook::METADATA_HOSTS;

/// What s3fs, boto3, pyarrow and others call it, and what to write here.
const OF_OTHERS: &[(&[StoreKind], &[&str], &str)] = {
    use StoreKind::{Azure, Gcs, Http, S3};
    &[
        (&[S3], &["key", "access_key", "accesskey", "aws_access_key", "username"], "'aws_access_key_id'"),
        (&[S3], &["secret", "secret_key", "aws_secret_key", "password"], "'aws_secret_access_key'"),
        (&[S3], &["region_name"], "'region'"),
        (&[S3], &["endpoint_override"], "'endpoint_url'"),
        (
            &[S3, Gcs, Azure],
            &["profile", "profile_name"],
            "credentials=, a function that asks who knows the profile",
        ),
        (&[S3, Gcs, Azure], &["anon", "anonymous", "no_sign_request"], "'skip_signature': 'true'"),
        (&[S3], &["requester_pays"], "'request_payer': 'true'"),
        (&[S3], &["use_ssl", "scheme"], "the endpoint's scheme, as 'endpoint_url': 'http://...'"),
        (&[S3, Gcs, Azure, Http], &["verify"], "'allow_invalid_certificates'"),
        (
            &[S3],
            &["addressing_style", "path_style_access", "force_path_style"],
            "'virtual_hosted_style_request'",
        ),
        (
            &[S3, Gcs, Azure, Http],
            &["client_kwargs", "config_kwargs", "s3_additional_kwargs"],
            "what it holds by itself, as 'endpoint_url', 'region' or 'timeout'",
        ),
        (
            &[S3, Gcs, Azure, Http],
            &["max_retries", "retries", "retry_timeout_ms", "retry_max_attempts"],
            "nothing: what fails for a moment is asked for again",
        ),
        (
            &[Gcs],
            &["token", "credentials", "key_file"],
            "'service_account', a file of a key, or 'bearer_token'",
        ),
        (&[Gcs], &["project"], "nothing: the bucket tells it"),
        (&[Gcs], &["endpoint", "endpoint_url"], "'base_url'"),
        (&[Azure], &["connection_string"], "its parts, as 'account_name' and 'account_key'"),
        (&[Azure], &["endpoint_url"], "'endpoint'"),
        (&[Azure], &["key", "credential"], "'account_key', 'sas_token' or 'bearer_token'"),
    ]
};

/// The options that most users need.
fn usual(kind: StoreKind) -> &'static [&'static str] {
    match kind {
        StoreKind::S3 => {
            &["aws_access_key_id", "aws_secret_access_key", "aws_session_token", "region", "endpoint_url"]
        }
        StoreKind::Gcs => &["service_account", "bearer_token", "skip_signature", "base_url"],
        StoreKind::Azure => &["account_name", "account_key", "sas_token", "bearer_token", "endpoint"],
        StoreKind::Hub => &["token", "endpoint"],
        StoreKind::Http => &["timeout", "proxy_url", "allow_invalid_certificates"],
    }
}

/// A name that no store of this kind has, and what to write for it.
pub fn unknown(kind: StoreKind, store: &str, name: &str) -> Error {
    let of_others = OF_OTHERS.iter().filter(|(kinds, ..)| kinds.contains(&kind));
    let of_others =
        of_others.flat_map(|(_, names, instead)| names.iter().map(|name| (*name, (*instead).to_owned())));
    let own = usual(kind).iter().map(|name| (*name, format!("'{name}'")));
    let (names, to_write): (Vec<&str>, Vec<String>) = own.chain(of_others).unzip();
    let near = nearest(name, &names).and_then(|near| names.iter().position(|name| *name == near));
    let instead = near.map(|place| &to_write[place]);
    let advice = instead.map_or_else(
        || {
            let usual: Vec<String> = usual(kind).iter().map(|name| format!("'{name}'")).collect();
            format!("it has the names of the crate object_store, such as {}", usual.join(", "))
        },
        |instead| format!("write {instead}"),
    );
    Error::Argument(format!("storage_options: {store} has no option '{}'; {advice}", quoted(name)))
}

/// Refuses an endpoint that is no address of a server: the crate below takes it for one.
///
/// # Errors
/// `Argument` if it is none.
pub fn check_endpoint(option: &str, endpoint: Option<String>) -> Result<()> {
    let Some(endpoint) = endpoint else { return Ok(()) };
    let parsed = Url::parse(&endpoint).ok();
    if parsed.is_some_and(|url| url.has_host() && matches!(url.scheme(), "http" | "https")) {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "storage_options: '{option}' must be as 'https://host' or 'http://host:9000', found '{}'",
        quoted(endpoint)
    )))
}

/// Whether a credential can be sent: one that was read from a file may end with its line.
pub fn is_sendable(value: &str) -> bool {
    HeaderValue::from_str(value).is_ok()
}

/// What ends the names of credentials that are sent as they are.
const SENT: [&str; 4] = ["access_key_id", "token", "account_name", "user_agent"];

/// Refuses credentials that no request can have. No message has one.
///
/// # Errors
/// `Argument` if there is one.
pub fn check_values(named: &BTreeMap<String, String>) -> Result<()> {
    let wrong = named.iter().find(|(name, value)| {
        let name = name.to_ascii_lowercase();
        SENT.iter().any(|sent| name.ends_with(sent)) && !is_sendable(value)
    });
    match wrong {
        Some((name, _)) => Err(Error::Argument(format!(
            "storage_options: the value of '{name}' has a line's end in it, or another character that no request can \
             have: write value.strip()"
        ))),
        None => Ok(()),
    }
}

/// What the crate below says of a value, with the option's name: the value may be a secret.
pub fn about_values(cause: &str, named: &BTreeMap<String, String>) -> Option<String> {
    let (value, kind) = cause.split_once("failed to parse \"")?.1.rsplit_once("\" as ")?;
    let (name, _) = named.iter().find(|(_, found)| *found == value)?;
    let expected = match kind {
        "boolean" => "'true' or 'false'",
        "Duration" => "a number and its unit, as '30s'",
        other => return Some(format!("storage_options: the value of '{name}' must be a {}", quoted(other))),
    };
    Some(format!("storage_options: the value of '{name}' must be {expected}"))
}

/// What to add to a cause that shows that nobody named credentials: the crate below asks the machine for some then.
pub fn about_credentials(cause: &str) -> &'static str {
    if !METADATA_HOSTS.iter().any(|address| cause.contains(address)) {
        return "";
    }
    if std::env::var_os("AWS_PROFILE").is_some_and(|profile| !profile.is_empty()) {
        return "; AWS_PROFILE is set, and profiles are not read: pass credentials=, a function that asks \
                boto3.Session(), which knows the profile";
    }
    "; no credentials were named, and the machine gave none: pass storage_options= or credentials=, set the \
     environment's, or write storage_options={'skip_signature': 'true'} for what is public"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_others_is_refused_with_the_one_to_write() {
        for (kind, name, instead) in [
            (StoreKind::S3, "key", "write 'aws_access_key_id'"),
            (StoreKind::S3, "Secret", "write 'aws_secret_access_key'"),
            (StoreKind::S3, "acess_key", "write 'aws_access_key_id'"),
            (StoreKind::S3, "aws_acces_key_id", "write 'aws_access_key_id'"),
            (StoreKind::S3, "endpoint-url", "write 'endpoint_url'"),
            (StoreKind::Gcs, "token", "write 'service_account', a file"),
            (StoreKind::Azure, "acount_key", "write 'account_key'"),
            (StoreKind::S3, "colour", "such as 'aws_access_key_id', 'aws_secret_access_key'"),
        ] {
            let message = unknown(kind, "It", name).to_string();
            assert!(message.contains(instead), "{name}: {message}");
        }
    }

    #[test]
    fn a_value_is_refused_by_its_name() {
        let named: BTreeMap<String, String> =
            [("timeout".into(), "30".into()), ("a".into(), "b".into())].into();
        let message = about_values("Generic: failed to parse \"30\" as Duration", &named);
        assert_eq!(
            message.as_deref(),
            Some("storage_options: the value of 'timeout' must be a number and its unit, as '30s'")
        );
        assert_eq!(about_values("Missing key", &named), None);
    }

    #[test]
    fn an_endpoint_has_a_scheme_and_a_host() {
        for right in ["http://127.0.0.1:9000", "https://host/path", "http://host/"] {
            assert!(check_endpoint("endpoint", Some(right.into())).is_ok(), "{right}");
        }
        for wrong in ["", "127.0.0.1:9000", "localhost", "ftp://host", "http://", "host:9000/x"] {
            assert!(check_endpoint("endpoint", Some(wrong.into())).is_err(), "{wrong}");
        }
    }
}
