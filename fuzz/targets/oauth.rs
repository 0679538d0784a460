//! Any bytes as what a token endpoint answers, as the query of a redirect, and as a token's file.
#![no_main]

use deputize_fuzz::meter::MemoryLimit;
use deputize_fuzz::one_line;
use deputize_mcp::fuzz::{granted_token, redirect_code, token_file, token_refusal};
use libfuzzer_sys::fuzz_target;
use url::Url;

const LIMIT: MemoryLimit = MemoryLimit { base: 64 * 1024, each: 400 };
/// The words of a server, cut, and what stands before them.
const ERROR_CHARS: usize = 400;
/// The longest time that a token is taken to be valid, in seconds.
const YEAR: u64 = 366 * 24 * 60 * 60;
const STATE: &str = "s";

fuzz_target!(|input: &[u8]| {
    // The first reading pays for tables of the whole program.
    let _warm = granted_token(input);
    match LIMIT.during(input.len(), || granted_token(input)) {
        // It never repeats what was sent: a token may stand there.
        Err(error) => one_line(&error.to_string(), 120),
        Ok(granted) => {
            for token in &granted.tokens {
                assert!(!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()));
            }
            assert!(granted.expires_in.is_none_or(|seconds| seconds <= YEAR));
            assert!(granted.scopes.iter().all(|scope| !scope.contains(' ')));
        }
    }
    if let Some(error) = LIMIT.during(input.len(), || token_refusal(input)) {
        one_line(&error.to_string(), ERROR_CHARS);
    }
    if let Some(written) = LIMIT.during(input.len(), || token_file(input)) {
        assert_eq!(token_file(&written).as_ref(), Some(&written), "a kept token is the same");
    }
    redirect(&String::from_utf8_lossy(input));
});

/// A code comes only from the expected address, with the state of this sign-in and no error.
fn redirect(query: &str) {
    let expected = Url::parse("http://127.0.0.1:9/path").expect("an address");
    let mut asked = expected.clone();
    asked.set_query(Some(query));
    for url in [Ok(asked), Url::parse(query)].into_iter().flatten() {
        let read = || redirect_code(&url, &expected, STATE);
        match LIMIT.during(url.as_str().len(), read) {
            Err(error) => one_line(&error.to_string(), ERROR_CHARS),
            Ok(code) => {
                let values = |name: &str| -> Vec<String> {
                    let pairs = url.query_pairs().filter(|(key, _)| key == name);
                    pairs.map(|(_, value)| value.into_owned()).collect()
                };
                assert_eq!((url.host_str(), url.path()), (Some("127.0.0.1"), "/path"));
                assert_eq!(values("state"), [STATE]);
                assert!(values("error").is_empty());
                assert!(!code.is_empty() && values("code") == [code]);
            }
        }
    }
}
