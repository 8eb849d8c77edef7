"""Where the configuration comes from, and credentials that renew themselves."""

import asyncio
import base64
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from ctrlruntime.client.auth import AuthError, ExecAuth, ExecPlugin, FileAuth, StaticAuth
from ctrlruntime.client.config import Config, ConfigError
from tests.support.waiting import eventually

TLS_NAME: dict[str, Any] = {"tls-server-name": "name"}


def kubeconfig(
    path: Path, server: str, *, user: dict[str, Any] | None = None, **cluster: object
) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user or {"token": "t"}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "mine"}},
            {"name": "other", "context": {"cluster": "c", "user": "u"}},
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.criterion("CL-12")
class TestPrecedence:
    async def load(self, tmp_path: Path, *, flag: bool, env: bool, pod: bool, home: bool) -> Config:
        environment: dict[str, str] = {}
        account = tmp_path / "serviceaccount"
        if env:
            environment["KUBECONFIG"] = str(kubeconfig(tmp_path / "env", "https://env"))
        if pod:
            environment |= {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
            account.mkdir()
            (account / "token").write_text("pod-token")
            (account / "namespace").write_text("pod-namespace")
        if home:
            kubeconfig(tmp_path / "home" / ".kube" / "config", "https://home")
        return await Config.load(
            kubeconfig(tmp_path / "flag", "https://flag") if flag else None,
            environment=environment,
            home=tmp_path / "home",
            service_account=account,
        )

    @pytest.mark.parametrize(
        ("flag", "env", "pod", "home", "host"),
        [
            (True, True, True, True, "https://flag"),
            (False, True, True, True, "https://env"),
            (False, False, True, True, "https://10.0.0.1:443"),
            (False, False, False, True, "https://home"),
        ],
    )
    async def test_flag_env_pod_home(
        self, tmp_path: Path, flag: bool, env: bool, pod: bool, home: bool, host: str
    ) -> None:
        config = await self.load(tmp_path, flag=flag, env=env, pod=pod, home=home)
        assert config.host == host

    async def test_nothing_at_all_reports_what_was_tried(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"KUBECONFIG.*not a pod.*\.kube/config"):
            await self.load(tmp_path, flag=False, env=False, pod=False, home=False)

    async def test_in_cluster_reads_namespace_and_token(self, tmp_path: Path) -> None:
        config = await self.load(tmp_path, flag=False, env=False, pod=True, home=False)
        assert config.namespace == "pod-namespace"
        assert await config.auth.headers() == {"Authorization": "Bearer pod-token"}


class TestKubeconfig:
    async def test_contexts(self, tmp_path: Path) -> None:
        path = kubeconfig(tmp_path / "c", "https://x", **TLS_NAME)
        main, other = await Config.load(path), await Config.load(path, "other")
        assert (main.namespace, other.namespace, main.tls_server_name) == (
            "mine",
            "default",
            "name",
        )
        with pytest.raises(ConfigError, match=r"no context 'nothing'; there are: main, other"):
            await Config.load(path, "nothing")

    async def test_files_of_the_variable_are_merged_and_the_first_wins(
        self, tmp_path: Path
    ) -> None:
        first = kubeconfig(tmp_path / "1", "https://first")
        second = kubeconfig(tmp_path / "2", "https://second")
        listed = os.pathsep.join([str(tmp_path / "absent"), str(first), str(second)])
        config = await Config.load(environment={"KUBECONFIG": listed}, home=tmp_path)
        assert config.host == "https://first"

    async def test_relative_paths_start_at_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "ca.pem").write_bytes(b"CA")
        (tmp_path / "deep" / "token").write_text("from-file")
        path = kubeconfig(
            tmp_path / "deep" / "config",
            "https://x",
            user={"tokenFile": "token"},
            **{"certificate-authority": "ca.pem"},
        )
        config = await Config.load(path)
        assert config.ca_data == b"CA"
        assert await config.auth.headers() == {"Authorization": "Bearer from-file"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "empty"),
            ("a: [", "not YAML"),
            ("clusters: [{cluster: {}}]", "no name"),
            ("contexts: [{name: c, context: {}}]", "no current-context"),
        ],
    )
    async def test_what_is_wrong_names_the_file(
        self, tmp_path: Path, text: str, message: str
    ) -> None:
        path = tmp_path / "bad"
        path.write_text(text)
        with pytest.raises(ConfigError, match=rf"bad.*{message}"):
            await Config.load(path)
        with pytest.raises(ConfigError, match="absent"):
            await Config.load(tmp_path / "absent")

    async def test_basic_auth_and_impersonation(self, tmp_path: Path) -> None:
        user = {"username": "u", "password": "p", "as": "alice", "as-groups": ["g"]}
        config = await Config.load(kubeconfig(tmp_path / "c", "https://x", user=user))
        encoded = base64.b64encode(b"u:p").decode()
        assert await config.auth.headers() == {"Authorization": f"Basic {encoded}"}
        assert config.extra_headers == {"Impersonate-User": "alice", "Impersonate-Group": "g"}

    async def test_client_certificates_leave_no_file_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(scratch))
        authority = trustme.CA()
        issued = authority.issue_cert("client@example.com")

        def data(blob: trustme.Blob) -> str:
            return base64.b64encode(blob.bytes()).decode()

        user = {
            "client-certificate-data": data(issued.cert_chain_pems[0]),
            "client-key-data": data(issued.private_key_pem),
        }
        ca = {"certificate-authority-data": data(authority.cert_pem)}
        config = await Config.load(kubeconfig(tmp_path / "c", "https://x", user=user, **ca))
        context = config.ssl_context()
        assert context is not None
        assert len(context.get_ca_certs()) == 1
        assert list(scratch.iterdir()) == []
        assert "PRIVATE" not in repr(config)

    async def test_old_auth_providers_name_the_way_out(self, tmp_path: Path) -> None:
        user = {"auth-provider": {"name": "gcp"}}
        with pytest.raises(ConfigError, match="exec plugin"):
            await Config.load(kubeconfig(tmp_path / "c", "https://x", user=user))


async def test_a_token_file_is_read_again_every_minute(tmp_path: Path) -> None:
    now = 0.0
    path = tmp_path / "token"
    path.write_text("one")
    auth = FileAuth(path, clock=lambda: now)
    assert (await auth.headers())["Authorization"] == "Bearer one"
    path.write_text("two")
    now = 59.0
    assert (await auth.headers())["Authorization"] == "Bearer one"
    now = 61.0
    assert (await auth.headers())["Authorization"] == "Bearer two"
    path.unlink()
    now = 200.0
    assert (await auth.headers())["Authorization"] == "Bearer two"
    with pytest.raises(AuthError, match="token"):
        await auth.headers(refused={"Authorization": "Bearer two"})


class TestExec:
    def plugin(
        self,
        tmp_path: Path,
        script: str,
        *,
        env: dict[str, str] | None = None,
        timeout: float = 60.0,
    ) -> ExecPlugin:
        path = tmp_path / "plugin"
        path.write_text(f"#!{sys.executable}\n{textwrap.dedent(script)}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return ExecPlugin(command=str(path), env=env or {}, timeout=timeout)

    COUNTING = """
        import json, os, pathlib
        counter = pathlib.Path(__file__).with_name("count")
        count = int(counter.read_text()) + 1 if counter.exists() else 1
        counter.write_text(str(count))
        info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        assert info["kind"] == "ExecCredential" and os.environ["EXTRA"] == "yes"
        status = {"token": f"t{count}", "expirationTimestamp": "2026-01-01T01:00:00Z"}
        print(json.dumps({"kind": "ExecCredential", "status": status}))
    """

    async def test_it_runs_again_when_the_token_nears_its_end_or_is_refused(
        self, tmp_path: Path
    ) -> None:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        auth = ExecAuth(self.plugin(tmp_path, self.COUNTING, env={"EXTRA": "yes"}), now=lambda: now)
        assert (await auth.headers())["Authorization"] == "Bearer t1"
        assert (await auth.headers())["Authorization"] == "Bearer t1"
        refused = await auth.headers()
        assert (await auth.headers(refused=refused))["Authorization"] == "Bearer t2"
        now += timedelta(minutes=59, seconds=30)
        assert (await auth.headers())["Authorization"] == "Bearer t3"

    @pytest.mark.criterion("LV-8")
    async def test_exec_plugin_stampede_requests_at_the_same_time_share_one_run(
        self, tmp_path: Path
    ) -> None:
        auth = ExecAuth(
            self.plugin(tmp_path, self.COUNTING, env={"EXTRA": "yes"}),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )
        for number in (1, 2):
            refused = None if number == 1 else await auth.headers()
            answers = await asyncio.gather(*[auth.headers(refused=refused) for _ in range(20)])
            assert {each["Authorization"] for each in answers} == {f"Bearer t{number}"}

    @pytest.mark.criterion("LV-8")
    async def test_exec_plugin_stampede_late_refusals_of_old_credentials_start_no_run(
        self, tmp_path: Path
    ) -> None:
        """The answers 401 to requests in flight come one after the other, when newer credentials are there."""
        auth = ExecAuth(
            self.plugin(tmp_path, self.COUNTING, env={"EXTRA": "yes"}),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )
        old = await auth.headers()
        renewed = [(await auth.headers(refused=old))["Authorization"] for _ in range(5)]
        assert set(renewed) == {"Bearer t2"}
        last = await auth.headers(refused=await auth.headers())
        assert last["Authorization"] == "Bearer t3"

    @pytest.mark.criterion("LV-8")
    async def test_exec_plugin_stampede_a_failing_run_is_shared_and_the_next_request_tries_again(
        self, tmp_path: Path
    ) -> None:
        plugin = self.plugin(tmp_path, self.COUNTING)  # without EXTRA it fails, and has counted
        auth = ExecAuth(plugin)
        failures = await asyncio.gather(
            *[auth.headers() for _ in range(10)], return_exceptions=True
        )
        assert {type(each) for each in failures} == {AuthError}
        assert (tmp_path / "count").read_text() == "1"
        with pytest.raises(AuthError):
            await auth.headers()
        assert (tmp_path / "count").read_text() == "2"

    @pytest.mark.criterion("LV-8")
    async def test_exec_plugin_stampede_a_run_that_was_cancelled_does_not_count(
        self, tmp_path: Path
    ) -> None:
        script = """
            import json, pathlib
            place = pathlib.Path(__file__).parent
            if not (place / "first").exists():
                (place / "first").touch()
                import time; time.sleep(600)
            print(json.dumps({"status": {"token": "t"}}))
        """
        auth = ExecAuth(self.plugin(tmp_path, script))
        first = asyncio.create_task(auth.headers())
        await eventually((tmp_path / "first").exists)
        second = asyncio.create_task(auth.headers())
        await asyncio.sleep(0)
        first.cancel()
        assert (await second)["Authorization"] == "Bearer t"

    @pytest.mark.parametrize(
        ("script", "message"),
        [
            ("import sys; sys.exit('log in first')", "code 1: log in first"),
            ("print('nonsense')", "ExecCredential"),
            ("print('{\"status\": {}}')", "neither token nor certificate"),
        ],
    )
    async def test_failures_quote_the_plugin(
        self, tmp_path: Path, script: str, message: str
    ) -> None:
        with pytest.raises(AuthError, match=message):
            await ExecAuth(self.plugin(tmp_path, script)).headers()

    async def test_a_plugin_that_hangs_or_is_not_there(self, tmp_path: Path) -> None:
        hanging = self.plugin(tmp_path, "import time; time.sleep(600)", timeout=0.2)
        with pytest.raises(AuthError, match="no answer"):
            await ExecAuth(hanging).headers()
        absent = ExecPlugin(command=str(tmp_path / "absent"), install_hint="install it from x")
        with pytest.raises(AuthError, match="install it from x"):
            await ExecAuth(absent).headers()


def test_kubernetes_asyncio_is_not_imported_without_need() -> None:
    code = "import sys, ctrlruntime.cache.cache; print('kubernetes_asyncio' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "False"


async def test_secrets_stay_out_of_representations() -> None:
    config = Config(host="https://x", auth=StaticAuth(token="very-secret"))
    assert "very-secret" not in repr(config)
