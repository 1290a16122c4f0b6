"""What no schema says of packaging/compose.yaml and packaging/kubernetes. docs/kubernetes.md gives the reasons.

Usage: manifests.py SCHEMA    the schema of Compose, as JSON
"""

import json
import re
import sys
from pathlib import Path

import jsonschema
import yaml

VERSION = re.search(r'\[workspace\.package\]\nversion = "(.+)"', Path("Cargo.toml").read_text())[1]


def main(schema):
    compose = yaml.safe_load(Path("packaging/compose.yaml").read_text())
    jsonschema.Draft201909Validator(json.loads(Path(schema).read_text())).validate(compose)
    check_compose(compose["services"])
    objects = {}
    for file in Path("packaging/kubernetes").glob("*.yaml"):
        for one in yaml.safe_load_all(file.read_text()):
            objects[one["kind"], one["metadata"]["name"]] = one
    check_nodes(objects["StatefulSet", "dlock"]["spec"])
    check_around(objects)
    for (kind, name), one in objects.items():
        if kind in ("StatefulSet", "Deployment"):
            check_pod(f"{kind} {name}", one["spec"]["template"]["spec"])
    check_sidecar(objects["Pod", "app"]["spec"])


def check_compose(services):
    nodes = [name for name in services if name.startswith("node-")]
    equal("independent nodes", len(nodes), 3)
    equal("volumes", len({services[name]["volumes"][0] for name in nodes}), 3)
    for name, service in services.items():
        equal(f"{name}'s image", service["image"].split(":")[1], VERSION)
        for port in service["ports"]:
            equal(f"{name} listens on loopback", port.split(":")[0], "127.0.0.1")
    for name in nodes:
        equal(f"{name} has a password", "DLOCK_PASSWORD_FILE" in services[name]["environment"], True)
        equal(f"{name}: quarantine as it comes", "newborn" in str(services[name]), False)


def check_nodes(spec):
    pod = spec["template"]["spec"]
    [node] = pod["containers"]
    equal("replicas", spec["replicas"], 3)
    equal("an update waits for minReadySeconds", spec["podManagementPolicy"], "OrderedReady")
    equal("they wait for renewals", spec["minReadySeconds"] >= 15, True)
    equal("volumes stay", set(spec["persistentVolumeClaimRetentionPolicy"].values()), {"Retain"})
    equal("the volume", node["volumeMounts"][0]["mountPath"], "/data")
    equal("liveness", node["livenessProbe"]["exec"]["command"], ["dlock-node", "alive"])
    equal("startup", node["startupProbe"]["exec"]["command"], ["dlock-node", "alive"])
    equal("readiness", node["readinessProbe"]["exec"]["command"], ["dlock-node", "ready"])
    equal("quarantine as it comes", "newborn" in str(spec), False)
    [rule] = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    equal("one node a host", rule["labelSelector"], spec["selector"])


def check_around(objects):
    selector = objects["StatefulSet", "dlock"]["spec"]["selector"]
    budget = objects["PodDisruptionBudget", "dlock"]["spec"]
    equal("the budget", (budget["maxUnavailable"], budget["selector"]), (1, selector))
    service = objects["Service", "dlock"]["spec"]
    equal("the service", (service["clusterIP"], service["publishNotReadyAddresses"]), ("None", True))
    equal("its pods", service["selector"], selector["matchLabels"])
    equal("no password is in the tree", set(objects["Secret", "dlock"]["stringData"].values()), {""})
    [exporter] = objects["Deployment", "dlock-exporter"]["spec"]["template"]["spec"]["containers"]
    nodes = exporter["env"][1]["value"].split(",")
    equal("the exporter's nodes", nodes, [f"redis://watch:$(WATCH)@dlock-{i}.dlock" for i in range(3)])


def check_sidecar(pod):
    [agent] = pod["initContainers"]
    [app] = pod["containers"]
    [folder] = [mount["mountPath"] for mount in agent["volumeMounts"]]
    check_pod("Pod app", {**pod, "containers": [agent]})
    check_container("the application", app)
    equal("it runs beside the application", agent["restartPolicy"], "Always")
    equal("both see the socket's folder", app["volumeMounts"], agent["volumeMounts"])
    equal("nobody else does", ["emptyDir" in volume for volume in pod["volumes"]], [True])
    equal("its socket", agent["args"], ["agent", "--listen", f"unix:{folder}/agent.sock"])
    equal("the application waits for it", agent["startupProbe"]["exec"]["command"][2], f"{folder}/agent.sock")
    [nodes] = [each["value"] for each in agent["env"] if each["name"] == "DLOCK_NODES"]
    equal("its nodes", nodes.split(","), [f"redis://:$(PASSWORD)@dlock-{i}.dlock" for i in range(3)])


def check_pod(name, pod):
    equal(f"{name} is not root", pod["securityContext"]["runAsNonRoot"], True)
    for container in pod["containers"]:
        equal(f"{name}'s image", container["image"].split(":")[1], VERSION)
        check_container(name, container)


def check_container(name, container):
    context = container["securityContext"]
    equal(f"{name} is read-only", context["readOnlyRootFilesystem"], True)
    equal(f"{name} gets no more rights", context["allowPrivilegeEscalation"], False)
    equal(f"{name} has no capability", context["capabilities"], {"drop": ["ALL"]})
    equal(f"{name} has limits", "memory" in container["resources"]["limits"], True)


def equal(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found}, and not {expected}")


main(sys.argv[1])
