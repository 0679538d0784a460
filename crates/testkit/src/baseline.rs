//! The minimal work to which benchmarks compare.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The end of a chunked body with a complete reply.
const END: &[u8] = b"data: [DONE]\n\n\r\n0\r\n\r\n";

/// A bare loop against a model server: it sends as many requests as an agent with its children
/// would, each of the same size, and reads as many files, but has no tools, records, checks or
/// retries. The cost of a harness is stated as a multiple of this.
///
/// Each conversation has its own connection. A reply must end with `data: [DONE]` at the end of its
/// last chunk; its content is ignored.
///
/// ```no_run
/// # async fn run() -> std::io::Result<()> {
/// use deputize_testkit::Baseline;
/// let baseline = Baseline {
///     server: ([127, 0, 0, 1], 8080).into(),
///     folder: "work".into(),
///     task: "Hand this to two children.".into(),
///     root: vec![8_000, 9_000],
///     children: 2,
///     child_task: "Read a file.".into(),
///     child: vec![7_000, 8_000],
/// };
/// baseline.run().await
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Baseline {
    /// Address of the model server.
    pub server: SocketAddr,
    /// Directory with the files `NAME-K.txt`, where `NAME` is `root` or the number of a child, and
    /// `K` counts its files from 0.
    pub folder: PathBuf,
    /// The task of the top agent.
    pub task: String,
    /// Sizes of the bodies that the top agent sends, in bytes. Between two requests it reads a file
    /// or, after the first, runs its children if there are any.
    pub root: Vec<usize>,
    /// Number of children, which run concurrently.
    pub children: usize,
    /// The task of a child; `{}` in it is replaced by the child's number.
    pub child_task: String,
    /// Sizes of the bodies that a child sends, in bytes. Between two requests it reads a file.
    pub child: Vec<usize>,
}

impl Baseline {
    /// Runs everything once.
    ///
    /// # Errors
    /// If the server cannot be reached or disconnects, or a file cannot be read.
    pub async fn run(self) -> io::Result<()> {
        let this = Arc::new(self);
        let mut root = BaselineConversation::open(Arc::clone(&this), "root", &this.task).await?;
        for (k, bytes) in this.root.iter().enumerate() {
            match k {
                0 => {}
                1 if this.children > 0 => this.all_children().await?,
                _ => root.read(k - 1)?,
            }
            root.ask(*bytes).await?;
        }
        Ok(())
    }

    async fn all_children(self: &Arc<Self>) -> io::Result<()> {
        let mut children = JoinSet::new();
        for number in 0..self.children {
            children.spawn(Arc::clone(self).one_child(number));
        }
        while let Some(ended) = children.join_next().await {
            ended.map_err(io::Error::other)??;
        }
        Ok(())
    }

    async fn one_child(self: Arc<Self>, number: usize) -> io::Result<()> {
        let name = number.to_string();
        let task = self.child_task.replace("{}", &name);
        let mut child = BaselineConversation::open(Arc::clone(&self), &name, &task).await?;
        for (k, bytes) in self.child.iter().enumerate() {
            if k > 0 {
                child.read(k - 1)?;
            }
            child.ask(*bytes).await?;
        }
        Ok(())
    }
}

struct BaselineConversation {
    floor: Arc<Baseline>,
    name: String,
    stream: TcpStream,
    /// The messages, without the end of their list.
    messages: String,
}

impl BaselineConversation {
    async fn open(floor: Arc<Baseline>, name: &str, task: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(floor.server).await?;
        stream.set_nodelay(true)?;
        let task = serde_json::Value::from(task);
        let messages = format!(r#"{{"messages":[{{"role":"user","content":{task}}}"#);
        Ok(Self { floor, name: name.to_owned(), stream, messages })
    }

    /// Reads a file into the conversation.
    fn read(&mut self, k: usize) -> io::Result<()> {
        let path = self.floor.folder.join(format!("{}-{k}.txt", self.name));
        let text = serde_json::Value::from(std::fs::read_to_string(path)?);
        // Writing to a string does not fail.
        let _never = write!(
            self.messages,
            r#",{{"role":"assistant","content":""}},{{"role":"tool","content":{text}}}"#
        );
        Ok(())
    }

    /// Sends the conversation, padded to `bytes`, and reads the reply.
    async fn ask(&mut self, bytes: usize) -> io::Result<()> {
        let begin = r#"],"pad":""#;
        let end = r#""}"#;
        let fill = bytes.saturating_sub(self.messages.len() + begin.len() + end.len());
        let length = self.messages.len() + begin.len() + fill + end.len();
        let mut request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{}{begin}",
            self.floor.server, self.messages
        );
        request.extend(std::iter::repeat_n(' ', fill));
        request.push_str(end);
        self.stream.write_all(request.as_bytes()).await?;
        drop(request);
        let mut reply = Vec::new();
        while !reply.ends_with(END) {
            if self.stream.read_buf(&mut reply).await? == 0 {
                let said = String::from_utf8_lossy(&reply).into_owned();
                return Err(io::Error::new(ErrorKind::UnexpectedEof, said));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use deputize_core::model::Reply;

    use super::*;
    use crate::{MockAnswer, MockServer};

    #[tokio::test]
    async fn it_sends_as_many_bytes_as_given_and_reads_the_files() {
        let server = MockServer::start_with(|_| MockAnswer::reply(&Reply::text("m", "Yes."))).await;
        let server = server.unwrap();
        let folder = tempfile::tempdir().unwrap();
        for name in ["0-0", "1-0", "root-1"] {
            std::fs::write(folder.path().join(format!("{name}.txt")), name).unwrap();
        }
        let floor = Baseline {
            server: server.address(),
            folder: folder.path().to_owned(),
            task: "the task".into(),
            root: vec![300, 400, 500],
            children: 2,
            child_task: "child {}".into(),
            child: vec![200, 600],
        };
        floor.run().await.unwrap();
        let requests = server.requests();
        let mut sizes: Vec<_> = requests.iter().map(|request| request.body.len()).collect();
        assert_eq!((sizes[0], sizes[5], sizes[6]), (300, 400, 500));
        sizes.sort_unstable();
        assert_eq!(sizes, [200, 200, 300, 400, 500, 600, 600]);
        assert_eq!(server.connections(), 3);
        let of_child = requests.iter().rfind(|it| it.text().contains("child 1")).unwrap();
        assert_eq!(of_child.json()["messages"][2]["content"], "1-0");
        assert_eq!(requests[6].json()["messages"][2]["content"], "root-1");
    }

    #[tokio::test]
    async fn a_reply_that_breaks_off_is_an_error_that_shows_it() {
        let answer = MockAnswer::reply(&Reply::text("m", "Yes.")).cut_at(40);
        let server = MockServer::start([answer]).await.unwrap();
        let floor = Baseline {
            server: server.address(),
            folder: ".".into(),
            task: "the task".into(),
            root: vec![0],
            children: 0,
            child_task: String::new(),
            child: Vec::new(),
        };
        let error = floor.run().await.unwrap_err();
        assert!(error.to_string().contains("200 Scripted"), "{error}");
    }
}
