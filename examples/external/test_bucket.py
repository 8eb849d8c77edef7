"""Against a service of the test's own that speaks HTTP."""

import pytest
from aiohttp import web
from bucket import FINALIZER, Bucket, Service, bucket_name, setup

from ctrlruntime.envtest.eventually import eventually, eventually_gone


class Stub:
    """The service: buckets with a quota, and names of those that are not empty."""

    def __init__(self):
        self.buckets = {}
        self.full = set()
        self.url = ""

    async def put(self, request):
        name = request.match_info["name"]
        self.buckets[name] = (await request.json())["quotaGiB"]
        return web.json_response({"url": f"https://storage.example.com/{name}"})

    async def delete(self, request):
        name = request.match_info["name"]
        if name in self.full:
            return web.json_response({}, status=409)
        found = self.buckets.pop(name, None)
        return web.json_response({}, status=404 if found is None else 200)


@pytest.fixture
async def stub():
    made, app = Stub(), web.Application()
    app.router.add_put("/buckets/{name}", made.put)
    app.router.add_delete("/buckets/{name}", made.delete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


async def test_a_bucket_lives_and_goes_with_its_object(
    run_manager, envtest_client, namespace, stub
):
    await run_manager(lambda manager: setup(manager, Service(stub.url, "t0ken")), Bucket)
    place = {"name": "photos", "namespace": namespace}
    await envtest_client.create(Bucket.from_manifest({"metadata": place, "spec": {"quotaGib": 5}}))
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await eventually(envtest_client, Bucket, "photos", ready, namespace=namespace)
    made = await envtest_client.get(Bucket, "photos", namespace=namespace)
    assert made.metadata.finalizers == [FINALIZER]
    assert stub.buckets == {bucket_name(made): 5}

    stub.full = {bucket_name(made)}
    await envtest_client.delete(Bucket, "photos", namespace=namespace)
    waits = {"status": {"conditions": [{"type": "Ready", "reason": "NotEmpty"}]}}
    await eventually(envtest_client, Bucket, "photos", waits, namespace=namespace)
    assert stub.buckets

    stub.full = set()
    await eventually_gone(envtest_client, Bucket, "photos", namespace=namespace)
    assert stub.buckets == {}
