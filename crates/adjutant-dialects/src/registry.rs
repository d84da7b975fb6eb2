/// Generates everything that exists once per dialect from one list: the enum, its dispatch and the
/// settings.
macro_rules! dialects {
    ($($(#[$doc:meta])* $variant:ident = $module:ident,)+) => {
        /// The source whose tools a call uses.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub enum Dialect {
            $($(#[$doc])* $variant,)+
        }

        impl Dialect {
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => <$module::Tools as Implementation>::NAME,)+
                }
            }

            /// The tools with which an orchestrator delegates.
            pub fn delegation_tools(self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant => <$module::Tools as Implementation>::DELEGATION_TOOLS,)+
                }
            }

            /// The tools that an orchestrator gets.
            pub fn tools(self, limits: &TextLimits) -> Vec<ToolDefinition> {
                match self {
                    $(Self::$variant => <$module::Tools as Implementation>::tools(limits),)+
                }
            }

            /// The argument that names the session of a call over MCP.
            pub fn session_argument(self) -> &'static str {
                match self {
                    $(Self::$variant => <$module::Tools as Implementation>::SESSION_ARGUMENT,)+
                }
            }

            /// The MCP instructions of the server.
            pub fn instructions(self) -> &'static str {
                match self {
                    $(Self::$variant => <$module::Tools as Implementation>::INSTRUCTIONS,)+
                }
            }

            /// The JSON schema of the answers, for the OpenAPI document.
            pub fn answer_schema(self) -> Value {
                match self {
                    $(Self::$variant => <$module::Tools as Implementation>::answer_schema(),)+
                }
            }

            /// The text for an orchestrator's system prompt.
            pub async fn prompt(
                self,
                context: &Context<'_>,
                session: &SessionRef<'_>,
            ) -> Result<String> {
                match self {
                    $(Self::$variant => <$module::Tools>::prompt(context, session).await,)+
                }
            }

            pub(crate) async fn ended(
                self,
                context: &Context<'_>,
                session: &SessionRef<'_>,
                task: &TaskView,
            ) -> Result<Answer> {
                match self {
                    $(Self::$variant => <$module::Tools>::ended(context, session, task).await,)+
                }
            }

            pub(crate) async fn still_running(
                self,
                context: &Context<'_>,
                session: &SessionRef<'_>,
                task: &TaskView,
            ) -> Result<Answer> {
                match self {
                    $(Self::$variant => <$module::Tools>::still_running(context, session, task).await,)+
                }
            }

            pub(crate) async fn end_log(self, store: &Store, end: &LoggedEnd) -> Result<EndLog> {
                match self {
                    $(Self::$variant => <$module::Tools>::end_log(store, end).await,)+
                }
            }

            pub(crate) fn nested(self) -> Option<&'static dyn nested::BlockingTool> {
                match self {
                    $(Self::$variant => <$module::Tools>::nested(),)+
                }
            }
        }

        /// A call that was parsed by its dialect.
        pub(crate) enum Request {
            $($variant(<$module::Tools as Implementation>::Call),)+
            /// The arguments are not valid, and this is the tool's answer.
            Rejected(Answer),
        }

        impl Request {
            fn parse(
                dialect: Dialect,
                call: &ToolCall,
                limits: &TextLimits,
            ) -> Result<Self, Refusal> {
                let parsed = match dialect {
                    $(Dialect::$variant => {
                        <$module::Tools>::parse(call, limits).map(Self::$variant)
                    })+
                };
                parsed.or_else(|rejected| match rejected {
                    Rejected::Answer(answer) => Ok(Self::Rejected(answer)),
                    Rejected::Refusal(refusal) => Err(refusal),
                })
            }

            fn can_open_session(&self) -> bool {
                match self {
                    $(Self::$variant(call) => <$module::Tools>::can_open_session(call),)+
                    Self::Rejected(_) => false,
                }
            }

            fn polls_status(&self) -> bool {
                match self {
                    $(Self::$variant(call) => <$module::Tools>::polls_status(call),)+
                    Self::Rejected(_) => false,
                }
            }

            fn waits_for_task(&self) -> bool {
                match self {
                    $(Self::$variant(call) => <$module::Tools>::waits_for_task(call),)+
                    Self::Rejected(_) => false,
                }
            }

            fn start_waits(&self) -> bool {
                match self {
                    $(Self::$variant(call) => <$module::Tools>::start_waits(call),)+
                    Self::Rejected(_) => false,
                }
            }

            async fn start(
                &self,
                context: &Context<'_>,
                session: &SessionRef<'_>,
                call: &ToolCall,
            ) -> Result<Started> {
                match self {
                    $(Self::$variant(parsed) => {
                        Box::pin(<$module::Tools>::start(context, session, call, parsed)).await
                    })+
                    Self::Rejected(answer) => Ok(Started::Answered(answer.clone())),
                }
            }

            fn refused(&self, refusal: &Refusal) -> Option<Answer> {
                match self {
                    $(Self::$variant(call) => <$module::Tools>::refused(call, refusal),)+
                    Self::Rejected(answer) => Some(answer.clone()),
                }
            }
        }

        /// The operator's settings in the section `[dialects]` of the config file.
        #[derive(Debug, Clone, PartialEq, serde::Deserialize)]
        #[serde(default)]
        pub struct DialectSettings {
            /// How long a call waits for its task before it answers with a handle.
            #[serde(rename = "longest_wait_s", deserialize_with = "settings::seconds")]
            pub longest_wait: std::time::Duration,
            pub on_client_cancel: OnClientCancel,
            $(pub $module: $module::Settings,)+
        }

        impl Default for DialectSettings {
            fn default() -> Self {
                Self {
                    longest_wait: LONGEST_WAIT,
                    on_client_cancel: OnClientCancel::default(),
                    $($module: $module::Settings::default(),)+
                }
            }
        }

        /// The settings of the folders, by their dotted names.
        const FOLDER_SETTINGS: &[&[Setting]] = &[$(<$module::Tools as Implementation>::SETTINGS,)+];
    };
}
