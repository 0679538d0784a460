//! What the rules say of an address.

use std::net::{Ipv4Addr, SocketAddr};

use deputize_http::{AddressPolicy, UrlDenial, host_of};

use super::decision::Decision;

/// Decides whether an address may be fetched, as far as that follows from its letters. What its name
/// resolves to is checked when it is fetched.
pub(super) fn decide(policy: &AddressPolicy, text: &str) -> Decision {
    let checked = policy.parse(text).and_then(|url| {
        let host = host_of(&url).unwrap_or_default();
        let name = host.trim_end_matches('.');
        // By standard, these names are this machine.
        if name == "localhost" || name.ends_with(".localhost") {
            policy.check_resolved(&url, &[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))])?;
        }
        Ok(())
    });
    let (got, rule, reason) = match checked {
        Ok(()) => {
            let reason =
                "the address is public; what its name resolves to is checked when it is fetched";
            ("allow", "none", reason.to_owned())
        }
        Err(denial) => ("deny", rule_of(&denial), denial.to_string()),
    };
    Decision { field: "decision", got, rule, reason }
}

const fn rule_of(denial: &UrlDenial) -> &'static str {
    match denial {
        UrlDenial::Invalid { .. } => "address",
        UrlDenial::Scheme { .. } => "scheme",
        UrlDenial::Credentials => "credentials-in-address",
        UrlDenial::Port { .. } => "port",
        UrlDenial::Private { .. } => "private-address",
        UrlDenial::Metadata { .. } => "cloud-metadata",
        UrlDenial::Secret { .. } => "secret-in-address",
        _ => "redirect",
    }
}
