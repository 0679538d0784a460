//! Items as their bytes came.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The item of an event, if the event has the plain shape.
pub(super) fn item(event: &str) -> Option<&str> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        item: &'a RawValue,
    }
    let event: Event<'_> = serde_json::from_str(event).ok()?;
    Some(event.item.get())
}

/// The items of a final output, of an event or of a whole document.
pub(super) fn output(text: &str) -> Vec<&str> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        response: Response<'a>,
    }
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        output: Vec<&'a RawValue>,
    }
    let within = serde_json::from_str(text).map(|event: Event<'_>| event.response);
    let response: Option<Response<'_>> = within.or_else(|_| serde_json::from_str(text)).ok();
    response.map_or_else(Vec::new, |it| it.output.into_iter().map(RawValue::get).collect())
}
