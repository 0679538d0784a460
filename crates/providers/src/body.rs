//! A request as bytes.

use deputize_core::Message;
use deputize_core::model::Request;
use serde::Serialize;

/// Bytes of JSON around each text of a request, about.
const AROUND: usize = 160;

/// A body as JSON, in room that was made for it at once: a long conversation would otherwise be
/// copied several times while it grows.
///
/// The body is plain data with texts as keys, and so cannot fail.
pub(crate) fn json_bytes(body: &impl Serialize, request: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(room(request));
    #[expect(clippy::expect_used, reason = "all keys are texts and nothing in it can fail")]
    serde_json::to_writer(&mut bytes, body).expect("a body of plain data");
    bytes
}

/// About as many bytes as a body takes: a little more, because some of a text is escaped.
fn room(request: &Request<'_>) -> usize {
    let system = request.system.iter().map(|block| block.len());
    let tools = request.tools.iter().map(|tool| {
        tool.name.as_str().len() + tool.description.len() + tool.parameters.as_str().len() + AROUND
    });
    let messages = request.messages.iter().map(|message| {
        let text = match &**message {
            Message::User(user) => user.text.len(),
            Message::Assistant(said) => {
                let calls = said.calls.iter();
                let calls = calls.map(|call| call.name.len() + call.arguments.len() + AROUND);
                let opaque = said.opaque.iter().map(|block| block.raw.len());
                said.text.len() + said.reasoning.len() + calls.chain(opaque).sum::<usize>()
            }
            Message::Tool(result) => result.text.as_str().len(),
        };
        let images = message.images().iter().map(|image| image.base64().len() + AROUND);
        text + AROUND + images.sum::<usize>()
    });
    let texts: usize = system.chain(tools).chain(messages).sum();
    texts + texts / 16 + AROUND
}
